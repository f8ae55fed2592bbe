"""Webhook configurations that can never work are refused when they are written, in the words of a kube-apiserver."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

from api.admission.causes import duplicate, invalid, required
from api.admission.dynamic.expressions import Scope
from api.admission.dynamic.rulefaults import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    REINVOCATION_POLICIES,
    condition_faults,
    label_1035_problems,
    one_of,
    rule_faults,
    strings,
)
from api.admission.labelselectors import selector_faults
from api.admission.rule import Checks
from api.engine.status import Cause
from api.objects.writing import Review
from fleet.values.names import subdomain_problems
from fleet.values.ports import Body
from fleet.values.untyped import rows

REVIEW_VERSIONS = ("v1", "v1beta1")
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_TIMEOUT_MAX_S = 30
_STATIC_SUFFIX = ".static.k8s.io"
_FORM = "; desired format: https://host[/path]"


def static_name_warning(review: Review) -> Sequence[Cause]:
    """Names that a kube-apiserver keeps for configurations in files."""
    if review.new is not None and review.operation != "DELETE" and review.name.endswith(_STATIC_SUFFIX):
        review.warnings.append(
            f'metadata.name: names ending with "{_STATIC_SUFFIX}" are reserved for static manifest-based configurations'
            " and cannot be managed via the API"
        )
    return ()


def _configuration(review: Review) -> Sequence[Cause]:
    if review.new is None or review.operation == "DELETE":
        return ()
    causes: list[Cause] = []
    names: set[str] = set()
    before = rows(review.old.get("webhooks")) if review.old is not None else []
    hooks = rows(review.new.get("webhooks"))
    stays = len(hooks) == len(before) and [h.get("matchConditions") for h in hooks] == [
        h.get("matchConditions") for h in before
    ]
    for index, hook in enumerate(hooks):
        at, name = f"webhooks[{index}]", hook.get("name") or ""
        causes += _hook_faults(at, hook, conditions=not stays)
        causes += version_faults(f"{at}.admissionReviewVersions", strings(hook.get("admissionReviewVersions")))
        if name in names:
            causes.append(duplicate(f"{at}.name", name))
        elif name:
            names.add(name)
    return causes


def _hook_faults(at: str, hook: Body, *, conditions: bool) -> list[Cause]:
    causes = _name_faults(f"{at}.name", hook.get("name") or "")
    for index, rule in enumerate(hook.get("rules") or ()):
        causes += rule_faults(f"{at}.rules[{index}]", rule or {})
    causes += one_of(f"{at}.failurePolicy", hook.get("failurePolicy"), FAILURE_POLICIES)
    causes += one_of(f"{at}.matchPolicy", hook.get("matchPolicy"), MATCH_POLICIES)
    if hook.get("sideEffects") is None:
        causes.append(required(f"{at}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}"))
    causes += one_of(f"{at}.sideEffects", hook.get("sideEffects"), _SIDE_EFFECTS)
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= _TIMEOUT_MAX_S:
        why = f"the timeout value must be between 1 and {_TIMEOUT_MAX_S} seconds"
        causes.append(invalid(f"{at}.timeoutSeconds", timeout, why))
    for field in ("namespaceSelector", "objectSelector"):
        causes += selector_faults(f"{at}.{field}", hook.get(field) or {})
    causes += one_of(f"{at}.reinvocationPolicy", hook.get("reinvocationPolicy"), REINVOCATION_POLICIES)
    causes += client_faults(f"{at}.clientConfig", hook.get("clientConfig") or {})
    if conditions:
        causes += condition_faults(f"{at}.matchConditions", hook.get("matchConditions"), Scope())
    return causes


def _name_faults(at: str, name: str) -> list[Cause]:
    if not name:
        return [required(at)]
    problems = subdomain_problems(name)
    if problems:
        return [invalid(at, name, ",".join(problems))]
    if len(name.split(".")) < 3:
        return [invalid(at, name, "should be a domain with at least three segments separated by dots")]
    return []


def client_faults(at: str, client: Body) -> list[Cause]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(at, "exactly one of url or service is required")]
    return _url_faults(f"{at}.url", url) if url is not None else _service_faults(f"{at}.service", service or {})


def _url_faults(at: str, url: str) -> list[Cause]:
    try:
        parts: SplitResult = urlsplit(url)
    except ValueError:
        return [required(at, f"url must be a valid URL{_FORM}")]
    causes = []
    if parts.scheme != "https":
        causes.append(invalid(at, parts.scheme, f"'https' is the only allowed URL scheme{_FORM}"))
    if not parts.netloc:
        causes.append(invalid(at, parts.netloc, f"host must be specified{_FORM}"))
    user, there, _ = parts.netloc.rpartition("@")
    if there:
        causes.append(invalid(at, user, "user information is not permitted in the URL"))
    if parts.fragment:
        causes.append(invalid(at, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        causes.append(invalid(at, parts.query, "query parameters are not permitted in the URL"))
    return causes


def _service_faults(at: str, service: Body) -> list[Cause]:
    # A kube-apiserver looks at the two fields in each other's place here, and so names the other one.
    causes = [
        required(f"{at}.{field}")
        for field, other in (("name", "namespace"), ("namespace", "name"))
        if not service.get(other)
    ]
    port = service.get("port")
    if port is not None and not 1 <= port <= 65535:
        why = "port is not valid: must be between 1 and 65535, inclusive"
        causes.append(invalid(f"{at}.port", port, why))
    path = service.get("path")
    if path in (None, "", "/"):
        return causes
    if path == "//":
        return [*causes, invalid(f"{at}.path", path, "segment[0] may not be empty")]
    if not path.startswith("/"):
        causes.append(invalid(f"{at}.path", path, "must start with a '/'"))
    for index, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            causes.append(invalid(f"{at}.path", path, f"segment[{index}] may not be empty"))
            continue
        problems = subdomain_problems(step)
        causes += [invalid(f"{at}.path", path, f"segment[{index}]: {problem}") for problem in problems]
    return causes


def version_faults(at: str, versions: list[str]) -> list[Cause]:
    if not versions:
        return [required(at, f"must specify one of {', '.join(REVIEW_VERSIONS)}")]
    causes: list[Cause] = []
    version_set: set[str] = set()
    for index, version in enumerate(versions):
        if version in version_set:
            causes.append(invalid(f"{at}[{index}]", version, "duplicate version"))
            continue
        version_set.add(version)
        causes += [invalid(f"{at}[{index}]", version, problem) for problem in label_1035_problems(version)]
    if version_set.isdisjoint(REVIEW_VERSIONS):
        causes.append(invalid(at, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}"))
    return causes


WEBHOOKS = Checks(_configuration, static_name_warning)
