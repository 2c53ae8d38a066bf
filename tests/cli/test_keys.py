"""`turnbuckle keys`: made, listed and revoked, also beside a running server."""

import msgspec
import pytest
from support.processes.commands import command

from turnbuckle.server.http.auth import Auth
from turnbuckle.server.http.exchange import Problem
from turnbuckle.server.keys import KeyFile


@pytest.mark.process
@pytest.mark.requirement("F9")
def test_a_key_is_printed_once_works_at_once_and_ends_at_once(tmp_path):
    auth = Auth([], KeyFile(tmp_path / ".turnbuckle"), "127.0.0.1")  # a server that runs beside the command
    made = command(tmp_path, "keys", "create", "my laptop", "--owner", "ann")
    token = made.out.strip()
    assert made.code == 0
    assert token.startswith("tb-")
    caller = auth.caller({"authorization": f"Bearer {token}"})
    assert caller.owner == "ann"
    listed = command(tmp_path, "keys", "list")
    assert token not in listed.out + listed.err
    assert caller.key in listed.out
    assert "my laptop" in listed.out
    assert command(tmp_path, "keys", "revoke", caller.key).code == 0
    with pytest.raises(Problem):
        auth.caller({"authorization": f"Bearer {token}"})
    rows = msgspec.json.decode(command(tmp_path, "keys", "list", "--json").out)
    assert [(row["id"], row["owner"], row["revoked"] is not None) for row in rows] == [
        (caller.key, "ann", True)
    ]
    assert "hash" not in rows[0]


@pytest.mark.process
def test_what_can_not_be_done_is_told_with_its_exit_code(tmp_path):
    unknown = command(tmp_path, "keys", "revoke", "key_none")
    assert (unknown.code, "there is no key key_none" in unknown.err) == (2, True)
    wrong = command(tmp_path, "keys", "create", "x", "--owner", "a/b")
    assert (wrong.code, "an owner's name" in wrong.err) == (2, True)
    none = command(tmp_path, "keys", "list")
    assert (none.code, none.out) == (0, "")
    made = command(tmp_path, "keys", "create", "x", "--json")
    assert msgspec.json.decode(made.out)["key"].startswith("tb-")


@pytest.mark.process
@pytest.mark.requirement("F9", "H2")
def test_a_key_is_revoked_by_a_name_that_only_one_good_key_has(tmp_path):
    for name in ("laptop", "phone", "phone"):
        command(tmp_path, "keys", "create", name)
    file = KeyFile(tmp_path / ".turnbuckle")
    made = file.keys()
    laptop, phone, other = (key.id for key in made)
    assert f"{laptop}, laptop, is revoked" in command(tmp_path, "keys", "revoke", "laptop").err
    several = command(tmp_path, "keys", "revoke", "phone")
    assert (several.code, phone in several.err, other in several.err) == (2, True, True)
    revoked = msgspec.json.decode(command(tmp_path, "keys", "revoke", phone, "--json").out)
    assert (revoked["id"], revoked["revoked"] is not None) == (phone, True)
    assert f"{other}, phone, is revoked" in command(tmp_path, "keys", "revoke", "phone").err
    assert command(tmp_path, "keys", "revoke", "phone").code == 2
    after = file.keys()
    assert all(key.revoked is not None for key in after)
