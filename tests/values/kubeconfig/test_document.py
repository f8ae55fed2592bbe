"""Which server and which user a kubeconfig means, and the text of a new one."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from fleet.values.kubeconfig.document import BadKubeconfig, choose, inline, parse, write

TWO: dict[str, Any] = {
    "current-context": "here",
    "contexts": [
        {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
        {"name": "there", "context": {"cluster": "d"}},
    ],
    "clusters": [
        {"name": "c", "cluster": {"server": "https://c:6443/"}},
        {"name": "d", "cluster": {"server": "http://d"}},
        {"name": "c", "cluster": {"server": "https://a-second-c"}},
    ],
    "users": [{"name": "u", "user": {"token": "t"}}],
}


def test_the_current_context_names_the_first_cluster_and_user_of_their_names() -> None:
    chosen = choose(parse(yaml.safe_dump(TWO)))
    assert (chosen.server, chosen.user, chosen.namespace) == ("https://c:6443", {"token": "t"}, "team")
    assert (chosen.cluster_at, chosen.user_at) == ("clusters[0].cluster", "users[0].user")


def test_another_context_may_have_no_user_and_no_namespace() -> None:
    chosen = choose(TWO, "there")
    assert (chosen.server, chosen.user, chosen.namespace) == ("http://d", {}, "default")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("a: [", ""),
        ("[]", ""),
        ("#" + "x" * (1 << 20), ""),
        ("clusters: one", "clusters"),
        ("{}", "current-context"),
        ("current-context: x", "current-context"),
        ("{current-context: x, contexts: [{name: x}]}", "contexts[0].context"),
        ("{current-context: x, contexts: [{name: x, context: {}}]}", "contexts[0].context.cluster"),
        ("{current-context: x, contexts: [{name: x, context: {cluster: c}}]}", "contexts[0].context.cluster"),
    ],
)
def test_a_kubeconfig_that_leads_nowhere_is_refused_with_the_field(text: str, field: str) -> None:
    with pytest.raises(BadKubeconfig) as refused:
        choose(parse(text))
    assert refused.value.field == field


@pytest.mark.parametrize("server", [None, "", "ftp://x", "https://", "https://x:y", "https://x:0"])
def test_a_server_is_a_url_that_can_be_connected_to(server: object) -> None:
    with pytest.raises(BadKubeconfig) as refused:
        choose({**TWO, "clusters": [{"name": "c", "cluster": {"server": server}}]})
    assert refused.value.field == "clusters[0].cluster.server"


@pytest.mark.parametrize("program", ["exec", "auth-provider"])
def test_no_program_is_run_for_credentials(program: str) -> None:
    with pytest.raises(BadKubeconfig, match='user "u" gets its credentials from a program') as refused:
        choose({**TWO, "users": [{"name": "u", "user": {program: {"name": "x"}}}]})
    assert refused.value.field == f"users[0].user.{program}"


def test_inline_data_is_decoded_or_refused() -> None:
    assert inline("users[0].user", {"client-key-data": "a2V5"}, "client-key") == b"key"
    assert inline("users[0].user", {}, "client-key") is None
    with pytest.raises(BadKubeconfig, match=r"users\[0\].user.client-key-data: must be base64"):
        inline("users[0].user", {"client-key-data": "%"}, "client-key")


def test_a_kubeconfig_that_is_written_is_read_back() -> None:
    text = write("https://x", name="m", user="ann", namespace="team", ca=b"ca", certificate=b"cert", key=b"key")
    chosen = choose(parse(text))
    assert (chosen.context, chosen.server, chosen.user_name, chosen.namespace) == ("m", "https://x", "ann", "team")
    assert inline("", chosen.cluster, "certificate-authority") == b"ca"
    assert (inline("", chosen.user, "client-certificate"), inline("", chosen.user, "client-key")) == (b"cert", b"key")
    assert "insecure-skip-tls-verify" not in chosen.cluster


@pytest.mark.parametrize("text", ["[" * 60_000, "{a: " * 60_000, "- " * 60_000])
def test_a_kubeconfig_without_bottom_is_refused_before_it_is_loaded(text: str) -> None:
    with pytest.raises(BadKubeconfig, match="nested more than 100 deep"):
        parse(text)
