"""One bad role or binding harms nobody else: refused when it is written, it grants nothing where it is stored."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from api.access.auth import AUTHENTICATED
from api.access.escalation import MAX_COMPARED, TooMuch, missing
from api.access.rbac import MAX_RULES, Rbac
from api.objects.writing import User
from api.store.memory import MemoryStore
from api.wire.rights import Attributes, PolicyRule
from fleet.simulate.wall import WallClock
from fleet.values.ports import Delete, Key, Put
from tests.api.conftest import Hub, open_hub
from tests.api.rbac import RBAC, binding, cluster_role, post, role
from tests.security.rbac_table import GROUP, rule


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Hub]:
    async with open_hub(tmp_path, MemoryStore(WallClock())) as opened:
        yield opened


ALICE = User("alice", ("dev", AUTHENTICATED))
LIST = Attributes("list", "", "configmaps", "", "default")
GOOD_ROLE = {"rules": [rule("list", "configmaps")]}
GOOD_BINDING = {
    "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "good"},
    "subjects": [{"kind": "User", "apiGroup": GROUP, "name": "alice"}],
}


async def put(store: MemoryStore, resource: str, name: str, body: Any, namespace: str = "default") -> None:
    where = {} if resource.startswith("cluster") else {"namespace": namespace}
    key = Key(GROUP, resource, where.get("namespace", ""), name)
    metadata = {"name": name, **where, "uid": f"u-{name}", **body.get("metadata", {})}
    await store.commit([Put(key, {"apiVersion": f"{GROUP}/v1", **body, "metadata": metadata})])


async def world() -> tuple[MemoryStore, Rbac]:
    store = MemoryStore(WallClock())
    await store.start()
    await put(store, "roles", "good", GOOD_ROLE)
    await put(store, "rolebindings", "good", GOOD_BINDING)
    return store, Rbac(store)


def values(*of_any_type: Any) -> tuple[Any, ...]:
    return of_any_type


TO_ALL = {"kind": "ClusterRole", "name": "all", "apiGroup": GROUP}
BAD: list[tuple[str, Any]] = [
    *(
        ("roles", {"rules": rules})
        for rules in (
            [None],
            ["x"],
            [{"verbs": [1]}],
            [{"verbs": "list"}],
            [{"verbs": None}],
            "x",
            5,
            {"verbs": ["*"]},
            [{**rule("*", "*", "*"), "resourceNames": [None]}],
            [{**rule("*", "*", "*"), "resourceNames": "a"}],
            [{**rule("*", "*", "*"), "verbs": [["*"]]}],
            [{"nonResourceURLs": [5], "verbs": ["get"]}],
        )
    ),
    *(
        ("clusterroles", {"rules": [], "aggregationRule": rule})
        for rule in values(
            "x",
            [],
            {"clusterRoleSelectors": "x"},
            {"clusterRoleSelectors": [None]},
            {"clusterRoleSelectors": {}},
            {"clusterRoleSelectors": [{"matchLabels": "x"}]},
            {"clusterRoleSelectors": [{"matchLabels": {"a": 5}}]},
            {"clusterRoleSelectors": [{"matchExpressions": [None]}]},
            {"clusterRoleSelectors": [{"matchExpressions": {}}]},
            {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]},
            {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]},
            {"clusterRoleSelectors": [{"matchExpressions": [{"key": ["a"], "operator": "Exists"}]}]},
            {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "In", "values": "xyz"}]}]},
        )
    ),
    ("clusterroles", {"rules": [], "metadata": {"labels": "x"}}),
    ("clusterroles", {"rules": [], "metadata": {"labels": {"a": []}}}),
    *(
        ("rolebindings", {**GOOD_BINDING, "roleRef": ref})
        for ref in values(
            None,
            "x",
            [],
            {},
            {"kind": "Foo", "name": "all", "apiGroup": GROUP},
            {"kind": "ClusterRole", "name": ["all"]},
            {"kind": "ClusterRole", "name": "all", "apiGroup": "v1"},
            {"kind": ["ClusterRole"], "name": "all"},
            {"kind": "clusterrole", "name": "all", "apiGroup": GROUP},
            {"kind": "ClusterRole", "name": ""},
        )
    ),
    *(
        ("clusterrolebindings", {**GOOD_BINDING, "roleRef": ref})
        for ref in values(
            None,
            {"kind": "Role", "name": "all", "apiGroup": GROUP},
            {"kind": "Foo", "name": "all", "apiGroup": GROUP},
        )
    ),
    *(
        ("clusterrolebindings", {"roleRef": TO_ALL, "subjects": subjects})
        for subjects in values(
            None,
            "alice",
            5,
            [None],
            ["alice"],
            [[]],
            [{}],
            [{"kind": "User"}],
            [{"kind": "User", "name": None}],
            [{"kind": "User", "name": ["alice"]}],
            [{"kind": ["User"], "name": "alice"}],
            [{"kind": "Robot", "name": "alice"}],
            [{"kind": "ServiceAccount", "name": "alice"}],
            [{"kind": "ServiceAccount", "name": "a", "namespace": 5}],
        )
    ),
]


@pytest.mark.parametrize(("resource", "body"), BAD, ids=[f"{r} {i}" for i, (r, _) in enumerate(BAD)])
async def test_a_stored_object_that_cannot_be_read_grants_nothing_and_harms_nobody(resource: str, body: Any) -> None:
    store, rbac = await world()
    await put(store, "clusterroles", "all", {"rules": [rule("*", "*", "*")]})
    await put(store, resource, "bad", body)
    kind = "ClusterRole" if resource == "clusterroles" else "Role"
    await put(
        store,
        "rolebindings",
        "to-bad",
        {
            "roleRef": {"apiGroup": GROUP, "kind": kind, "name": "bad"},
            "subjects": GOOD_BINDING["subjects"],
        },
    )
    assert rbac.allowed(ALICE, LIST)
    for name in ("", "a", "alice"):
        assert not rbac.allowed(ALICE, Attributes("delete", "", "secrets", "", "default", name))
        assert not rbac.allowed(
            User("system:serviceaccount::alice", ()), Attributes("get", "", "secrets", "", "", name)
        )
    await put(store, "rolebindings", "good", {**GOOD_BINDING, "subjects": [None]})
    rbac.invalidate()
    assert not rbac.allowed(ALICE, LIST)
    await store.stop()


async def test_a_bad_object_is_logged_once_for_each_of_its_states() -> None:
    store, rbac = await world()
    await put(store, "roles", "bad", {"rules": [None]})
    with capture_logs() as logs:
        for _ in range(3):
            rbac.invalidate()
            assert rbac.allowed(ALICE, LIST)
        assert [line["object"] for line in logs] == [f"roles.{GROUP} default/bad"]
        await put(store, "roles", "bad", {"rules": ["x"]})
        rbac.invalidate()
        assert rbac.allowed(ALICE, LIST) and len(logs) == 2
    await store.stop()


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("rolebindings", {"subjects": [None]}),
        ("rolebindings", {"roleRef": None}),
        ("rolebindings", {"roleRef": {"apiGroup": GROUP, "kind": "Foo", "name": "x"}}),
        ("roles", {"rules": [None]}),
        ("roles", {"rules": [{**rule("get", "pods"), "verbs": [1]}]}),
        ("roles", {"rules": [{**rule("get", "pods"), "verbs": [None]}]}),
        ("roles", {"rules": "x"}),
    ],
)
@pytest.mark.parametrize("token", ["admin-token", "alice-token"])
async def test_a_bad_object_is_refused_when_it_is_written(
    served: Hub,
    path: str,
    change: dict[str, Any],
    token: str,
) -> None:
    await post(served, f"{RBAC}/clusterroles", cluster_role("writer", [rule("*", "roles rolebindings", GROUP)]))
    await post(
        served, f"{RBAC}/clusterrolebindings", binding("w", "ClusterRoleBinding", "alice", "ClusterRole", "writer")
    )
    good = role("n", ["get"], ["pods"]) if path == "roles" else binding("n", "RoleBinding", "x", "Role", "y")
    answer = await post(served, f"{RBAC}/namespaces/default/{path}", {**good, **change}, token)
    assert answer.status_code in (400, 422), answer.text
    assert next(iter(change)) in answer.text


async def test_a_binding_of_no_kind_of_role_is_no_way_around_the_check(served: Hub) -> None:
    """`Foo` was a Role to the check, and a ClusterRole to the authoriser."""
    await post(served, f"{RBAC}/clusterroles", cluster_role("shadow", [rule("*", "*", "*")]))
    await post(served, f"{RBAC}/namespaces/default/roles", role("shadow", ["get"], ["pods"]))
    grants = [rule("create get", "rolebindings", GROUP), rule("get", "pods")]
    await post(served, f"{RBAC}/clusterroles", cluster_role("writer", grants))
    await post(
        served, f"{RBAC}/namespaces/default/rolebindings", binding("w", "RoleBinding", "alice", "ClusterRole", "writer")
    )
    body = binding("mine", "RoleBinding", "alice", "Foo", "shadow")
    answer = await post(served, f"{RBAC}/namespaces/default/rolebindings", body, "alice-token")
    assert answer.status_code == 422 and answer.json()["details"]["causes"][0]["field"] == "roleRef.kind"
    body = binding("mine", "RoleBinding", "alice", "ClusterRole", "shadow")
    assert (await post(served, f"{RBAC}/namespaces/default/rolebindings", body, "alice-token")).status_code == 403


async def test_a_role_of_a_million_grants_is_refused_before_they_are_compared(served: Hub) -> None:
    grants = [rule("create get", "roles", GROUP)]
    await post(served, f"{RBAC}/clusterroles", cluster_role("writer", grants))
    await post(
        served, f"{RBAC}/namespaces/default/rolebindings", binding("w", "RoleBinding", "alice", "ClusterRole", "writer")
    )
    many = [f"r{number}" for number in range(1000)]
    body = {**role("n", many, many), "rules": [{"verbs": many, "resources": many, "apiGroups": many}]}
    began = time.process_time()
    answer = await post(served, f"{RBAC}/namespaces/default/roles", body, "alice-token")
    assert answer.status_code == 403 and str(MAX_COMPARED) in answer.text
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "shape", [(20_000, 1, 1, 0), (1, 20_000, 1, 0), (1, 1, 20_000, 0), (1, 1, 1, 20_000), (99, 99, 9, 9)]
)
def test_no_shape_of_a_role_makes_the_comparison_long(shape: tuple[int, int, int, int]) -> None:
    verbs, groups, resources, names = (frozenset(f"w{number}" for number in range(count)) for count in shape)
    wanted = PolicyRule(verbs, groups, resources, names)
    held = [
        PolicyRule(frozenset({"w0"}), frozenset({"w0"}), frozenset({"w0"}), frozenset({f"n{n}"})) for n in range(20_000)
    ]
    began = time.process_time()
    try:
        assert missing([wanted], held)
    except TooMuch:
        pass
    assert time.process_time() - began < 2.0  # about 0.1 s


async def test_rules_beyond_the_bound_neither_count_nor_cost() -> None:
    store, rbac = await world()
    for number in range(3):
        rules = [{**rule("get", "pods"), "resourceNames": [f"p{number}-{n}"]} for n in range(10_000)]
        await put(store, "roles", f"many-{number}", {"rules": rules})
        many = {"kind": "Role", "name": f"many-{number}", "apiGroup": GROUP}
        everybody = [{"kind": "Group", "apiGroup": GROUP, "name": AUTHENTICATED}]
        await put(store, "rolebindings", f"many-{number}", {"roleRef": many, "subjects": everybody})
    assert rbac.allowed(ALICE, LIST)  # a user's own come before those of groups
    assert len(rbac.rules(ALICE, "default")) == MAX_RULES
    assert rbac.allowed(ALICE, Attributes("get", "", "pods", "", "default", "p0-1"))
    assert not rbac.allowed(ALICE, Attributes("get", "", "pods", "", "default", "p2-9999"))
    await store.stop()


async def test_long_questions_are_not_remembered() -> None:
    store, rbac = await world()
    for number in range(20):
        assert not rbac.allowed(ALICE, Attributes("get", name=f"{number}" * 100_000))
        assert not rbac.allowed(ALICE, Attributes("get", path="/" + f"{number}" * 100_000))
        assert rbac.allowed(ALICE, LIST)
    assert len(rbac._decided) == 1
    await store.stop()


async def test_a_change_reaches_only_what_it_concerns() -> None:
    """Bindings, roles and aggregated roles that come, change and go, one at a time."""
    store, rbac = await world()
    get_secret = Attributes("get", "", "secrets", "", "default")

    def may(wanted: Attributes) -> bool:
        rbac.invalidate()
        return rbac.allowed(ALICE, wanted)

    assert may(LIST) and not may(get_secret)
    await put(store, "roles", "good", {"rules": [rule("get", "secrets")]})
    assert not may(LIST) and may(get_secret)
    await put(
        store,
        "clusterroles",
        "sum",
        {
            "rules": [rule("list", "configmaps")],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
        },
    )
    to_sum = {**GOOD_BINDING, "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "sum"}}
    await put(store, "rolebindings", "sum", to_sum)
    assert not may(LIST)  # its own rules do not count
    await put(store, "clusterroles", "part", {"rules": [rule("list", "configmaps")]})
    assert not may(LIST)
    await put(
        store, "clusterroles", "part", {"rules": [rule("list", "configmaps")], "metadata": {"labels": {"a": "b"}}}
    )
    assert may(LIST) and may(get_secret)
    await store.commit([Delete(Key(GROUP, "clusterroles", "", "part"))])
    assert not may(LIST)
    await store.commit([Delete(Key(GROUP, "rolebindings", "default", "good"))])
    assert not may(get_secret)
    await put(store, "rolebindings", "good", GOOD_BINDING)
    assert may(get_secret)
    await put(store, "rolebindings", "good", {**GOOD_BINDING, "subjects": [{"kind": "Group", "name": "dev"}]})
    assert may(get_secret)
    await put(store, "rolebindings", "good", {**GOOD_BINDING, "subjects": [{"kind": "Group", "name": "ops"}]})
    assert not may(get_secret)
    assert rbac.roles._grants.keys() == {("User", "alice"), ("Group", "ops")}
    await store.stop()


async def test_thousands_of_bindings_do_not_stop_the_request_after_a_change() -> None:
    store, rbac = await world()
    for number in range(5000):
        namespace = f"ns-{number % 500}"
        subjects = [{"kind": "User", "name": f"user-{number}"}, {"kind": "Group", "name": "everybody"}]
        await put(store, "rolebindings", f"b-{number}", {**GOOD_BINDING, "subjects": subjects}, namespace)
    for number in range(500):
        await put(store, "roles", "good", GOOD_ROLE, f"ns-{number}")
    somebody = User("user-7", ("everybody",))
    assert rbac.allowed(somebody, Attributes("list", "", "configmaps", "", "ns-7"))
    slowest = []
    for _ in range(5):
        await put(store, "roles", "good", GOOD_ROLE, "ns-7")
        rbac.invalidate()
        began = time.process_time()
        assert rbac.allowed(somebody, Attributes("list", "", "configmaps", "", "ns-7"))
        slowest.append(time.process_time() - began)
    print(f"the check after a change among 5,000 bindings: {min(slowest) * 1000:.1f} ms")
    assert min(slowest) < 0.1
    await store.stop()
