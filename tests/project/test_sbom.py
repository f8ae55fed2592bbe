"""The bill of materials names what the lock of the image installs, in the form of CycloneDX 1.6."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from tests.checkout import ROOT, script

LOCK = ROOT / "deploy" / "requirements.lock"
TEXT = {"type": "string", "minLength": 1}
HASHES = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["alg", "content"],
        "additionalProperties": False,
        "properties": {"alg": {"const": "SHA-256"}, "content": {"type": "string", "pattern": "^[0-9a-f]{64}$"}},
    },
}
COMPONENT = {
    "type": "object",
    "required": ["type", "name", "version", "bom-ref", "purl"],
    "additionalProperties": False,
    "properties": {
        "type": {"enum": ["application", "library"]},
        "name": TEXT,
        "version": TEXT,
        "bom-ref": TEXT,
        "licenses": {},
        "purl": {"type": "string", "pattern": r"^pkg:pypi/[a-z0-9-]+@[^@\s]+$"},
        "externalReferences": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "url"],
                "additionalProperties": False,
                "properties": {"type": {"const": "distribution"}, "url": TEXT, "hashes": HASHES},
            },
        },
    },
}
# What the specification asks for, of the fields that are written.
SCHEMA = {
    "type": "object",
    "required": ["bomFormat", "specVersion"],
    "additionalProperties": False,
    "properties": {
        "bomFormat": {"const": "CycloneDX"},
        "specVersion": {"const": "1.6"},
        "version": {"type": "integer", "minimum": 1},
        "serialNumber": {"type": "string", "pattern": "^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
        "metadata": {"type": "object", "properties": {"component": COMPONENT}, "additionalProperties": False},
        "components": {"type": "array", "items": COMPONENT, "uniqueItems": True},
        "dependencies": {
            "type": "array",
            "uniqueItems": True,
            "items": {
                "type": "object",
                "required": ["ref"],
                "additionalProperties": False,
                "properties": {"ref": TEXT, "dependsOn": {"type": "array", "items": TEXT, "uniqueItems": True}},
            },
        },
    },
}
SMALL = f"""\
# made by hand
one==1.0 \\
    --hash=sha256:{"a" * 64} \\
    --hash=sha256:{"b" * 64}
    # via fleet (pyproject.toml)
Two.Parts[extra]==2.0 ; sys_platform == 'linux' \\
    --hash=sha256:{"c" * 64}
    # via
    #   -r hub/requirements.txt
    #   one
three==3.0 ; sys_platform == 'win32' \\
    --hash=sha256:{"d" * 64}
    # via one
"""


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    return script("deploy/sbom.py")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The document of the lock, as `make sbom` makes it."""
    into = tmp_path_factory.mktemp("sbom") / "new" / "sbom.cdx.json"
    subprocess.run(
        [sys.executable, ROOT / "deploy" / "sbom.py", LOCK, into], check=True, timeout=60, cwd=into.parents[1]
    )
    return into.read_bytes()


def test_the_document_has_the_form_of_the_specification(made: bytes) -> None:
    document = json.loads(made)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    refs = {document["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in document["components"])}
    assert len(refs) == 1 + len(document["components"])
    assert {one["ref"] for one in document["dependencies"]} == refs
    assert {ref for one in document["dependencies"] for ref in one["dependsOn"]} == refs - {_own(document)}


def _own(document: dict[str, Any]) -> str:
    return str(document["metadata"]["component"]["bom-ref"])


def test_each_package_of_the_lock_that_linux_installs_is_in_it_once(made: bytes) -> None:
    named = [one["name"] for one in json.loads(made)["components"]]
    assert sorted(named) == sorted(
        set(re.findall(r"^([A-Za-z0-9._-]+)(?:\[.*\])?==(?!.*win32)", LOCK.read_text(), re.MULTILINE))
    )


def test_the_same_lock_makes_the_same_document(made: bytes, maker: ModuleType, tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "deploy" / "sbom.py", LOCK, tmp_path / "b"], check=True, timeout=60)
    assert (tmp_path / "b").read_bytes() == made
    one, other = (maker.document(SMALL.replace("1.0", version), "fleet", "1", "3.12") for version in ("1.0", "1.1"))
    assert one["serialNumber"] != other["serialNumber"]


def test_a_package_is_listed_with_its_hashes_and_with_what_needs_it_where_the_image_installs_it(
    maker: ModuleType,
) -> None:
    document = maker.document(SMALL, "fleet", "0.1.0", "3.12")
    one, two = document["components"]
    assert [one["purl"], two["purl"]] == ["pkg:pypi/one@1.0", "pkg:pypi/two-parts@2.0"]
    assert [hash_["content"][0] for hash_ in one["externalReferences"][0]["hashes"]] == ["a", "b"]
    assert {entry["ref"]: entry["dependsOn"] for entry in document["dependencies"]} == {
        "pkg:pypi/fleet@0.1.0": ["pkg:pypi/one@1.0", "pkg:pypi/two-parts@2.0"],
        "pkg:pypi/one@1.0": ["pkg:pypi/two-parts@2.0"],
        "pkg:pypi/two-parts@2.0": [],
    }


@pytest.mark.parametrize(("lock", "text"), [("one==1.0\n", "one has no hash"), ("one>=1.0\n", "not a pinned package")])
def test_a_lock_that_is_none_is_refused(maker: ModuleType, lock: str, text: str) -> None:
    with pytest.raises(SystemExit, match=text):
        maker.document(lock, "fleet", "1", "3.12")
