"""The address of an API server and its user: kubeconfigs read as kubectl reads them.

Start-up time is what people feel of a command, so only the standard library and PyYAML are used. Several files in
KUBECONFIG merge as kubectl merges them: the first one that names a cluster, user, context or current-context wins.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.values.kubeconfig.document import SECTIONS, BadKubeconfig, Config, ContextEntry, choose, inline, parse

if TYPE_CHECKING:
    from fleet.values.kubeconfig.program import ExecProgram

_FILES = {"clusters": ("certificate-authority",), "users": ("client-certificate", "client-key", "tokenFile")}


@dataclass(frozen=True)
class Credential:
    """`until`: epoch seconds. The certificate and its key are PEM. `basic`: NAME:PASSWORD."""

    token: str = ""
    certificate: bytes | None = None
    key: bytes | None = None
    until: float = inf
    basic: str = ""

    @property
    def authorization(self) -> str:
        """The header of a request; "" for none."""
        if self.token:
            return f"Bearer {self.token}"
        return f"Basic {base64.b64encode(self.basic.encode()).decode()}" if self.basic else ""


@dataclass(frozen=True)
class Access:
    """How to reach one API server. Certificates and keys are PEM; `basic`: NAME:PASSWORD."""

    server: str
    namespace: str = "default"
    ca: bytes | None = None
    insecure: bool = False
    server_name: str = ""
    token: str = ""
    certificate: bytes | None = None
    key: bytes | None = None
    basic: str = ""
    proxy: str = ""
    context: str = ""
    user: str = ""
    program: ExecProgram | None = None  # whose credential it is, in place of token and certificate

    @property
    def credential(self) -> Credential:
        """The user's, but for that of a program."""
        return Credential(self.token, self.certificate, self.key, basic=self.basic)


def paths(explicit: str | None, environment: Mapping[str, str]) -> list[Path]:
    """`--kubeconfig`, else the files of KUBECONFIG, else ~/.kube/config."""
    if explicit:
        return [Path(explicit).expanduser()]
    listed = [part for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    return [Path(part) for part in listed] or [Path.home() / ".kube" / "config"]


def load(
    files: Sequence[Path],
    *,
    context: str | None = None,
    must_exist: bool = False,
    programs: bool = False,
    token: str = "",
) -> Access:
    """Return the access that the (current) context names. `programs`: its credentials may come from one; `token`: in
    place of its user's credentials. Raises BadKubeconfig."""
    merged: Config = {section: [] for section in SECTIONS}  # of entries with one name, the first is taken
    for path in files:
        if must_exist or path.exists():
            config = _read(path)
            for section in SECTIONS:
                merged[section] += config.get(section) or []
            merged["current-context"] = merged.get("current-context") or config.get("current-context")
    names = os.pathsep.join(str(path) for path in files)
    if not (context or merged.get("current-context")):
        raise BadKubeconfig("", "no current-context (set KUBECONFIG, or give --kubeconfig)", names)
    if context and not any(isinstance(e, dict) and e.get("name") == context for e in merged["contexts"]):
        raise BadKubeconfig("", f'context "{context}" does not exist', names)
    try:
        return access_of(choose(merged, context or "", programs=programs or bool(token)), token)
    except BadKubeconfig as error:
        raise BadKubeconfig(error.field, error.message, names) from error


def _read(path: Path) -> Config:
    try:
        return resolved(parse(path.read_text()), path.parent)
    except (OSError, UnicodeDecodeError) as error:
        raise BadKubeconfig("", f"cannot be read: {getattr(error, 'strerror', None) or error}", str(path)) from error
    except BadKubeconfig as error:
        raise BadKubeconfig(error.field, error.message, str(path)) from error


def resolved(config: Config, folder: Path) -> Config:
    """A config whose paths are relative to this folder, with the paths as seen from here."""
    for section, names in _FILES.items():
        for entry in config.get(section) or ():
            part = entry.get(SECTIONS[section]) if isinstance(entry, dict) else None
            for name in names:
                if isinstance(part, dict) and isinstance(part.get(name), str) and part[name]:
                    part[name] = str(folder / Path(part[name]).expanduser())
            program = part.get("exec") if isinstance(part, dict) else None
            if isinstance(program, dict) and os.sep in str(program.get("command") or ""):  # else it is found on PATH
                program["command"] = str(folder / Path(str(program["command"])))
    return config


def access_of(chosen: ContextEntry, instead: str = "") -> Access:
    """The access that a context names. `instead`: a token in place of the user's credentials. Raises BadKubeconfig."""
    access = Access(
        server=chosen.server,
        namespace=chosen.namespace,
        ca=_pem(chosen.cluster_at, chosen.cluster, "certificate-authority"),
        insecure=bool(chosen.cluster.get("insecure-skip-tls-verify")),
        server_name=str(chosen.cluster.get("tls-server-name") or ""),
        token=instead,
        proxy=str(chosen.cluster.get("proxy-url") or ""),
        context=chosen.context,
        user=chosen.user_name,
    )
    user = chosen.user
    if instead:
        return access
    token, source = str(user.get("token") or ""), "token"
    if not token and user.get("tokenFile"):
        source = "tokenFile"
        token = _content(f"{chosen.user_at}.{source}", user["tokenFile"]).decode(errors="replace").strip()
    if not (token.isascii() and token.isprintable()):
        raise BadKubeconfig(f"{chosen.user_at}.{source}", "is no token")
    program = None
    if user.get("exec"):
        from fleet.values.kubeconfig.program import program_of

        program = program_of(f"{chosen.user_at}.exec", user["exec"], chosen.cluster)
    return replace(
        access,
        token=token,
        certificate=_pem(chosen.user_at, user, "client-certificate"),
        key=_pem(chosen.user_at, user, "client-key"),
        program=program,
        basic=f"{user['username']}:{user.get('password') or ''}" if user.get("username") else "",
    )


def _pem(where: str, part: Config, name: str) -> bytes | None:
    """Return `NAME-data`, or the content of the file that NAME names."""
    data = inline(where, part, name)
    return _content(f"{where}.{name}", part[name]) if data is None and part.get(name) else data


def _content(where: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise BadKubeconfig(where, f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
