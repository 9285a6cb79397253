"""The chats file: what is kept, what a crash leaves, what happens to a damaged file."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.storage import schema
from app.storage.chats import ChatStore
from app.storage.export import file_name, to_json, to_markdown
from app.storage.files import StorageError
from app.storage.records import Attachment, ChatSettings, State, path_to, versions_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChatStore]:
    made = ChatStore(tmp_path / "data" / "chats.sqlite")
    yield made
    made.close()


def reopened(store: ChatStore) -> ChatStore:
    """The same file as the next start of the program finds it."""
    store.close()
    return ChatStore(store.path)


def talk(store: ChatStore, *texts: str, title: str = "A chat") -> int:
    """A chat of alternating messages; returns its id."""
    chat, parent = store.add_chat(title), None
    for number, text in enumerate(texts):
        role = "assistant" if number % 2 else "user"
        parent = store.add_message(chat.id, parent, role, text).id
    return chat.id


def texts(store: ChatStore, chat: int) -> list[str]:
    """The branch on show."""
    found = store.chat(chat)
    assert found is not None
    return [m.text for m in path_to(store.messages(chat), found.leaf)]


def test_a_chat_survives_the_program(store: ChatStore) -> None:
    chat = talk(store, "Why?", "Because.")
    assert texts(reopened(store), chat) == ["Why?", "Because."]


def test_newest_chat_comes_first(store: ChatStore) -> None:
    first, second = talk(store, "a"), talk(store, "b")
    assert [c.id for c in store.chats()] == [second, first]
    store.add_message(first, None, "user", "again")
    assert [c.id for c in store.chats()] == [first, second]


def test_rename_pin_and_settings_are_kept(store: ChatStore) -> None:
    chat = talk(store, "a")
    store.rename(chat, "Köln ☂")
    store.pin(chat, True)
    store.set_settings(chat, ChatSettings("Be brief.", {"temperature": 0.2}, "m", 2048))
    kept = reopened(store).chat(chat)
    assert kept is not None
    assert (kept.title, kept.pinned) == ("Köln ☂", True)
    assert kept.settings == ChatSettings("Be brief.", {"temperature": 0.2}, "m", 2048)


def test_delete_can_be_undone_until_the_next_start(store: ChatStore) -> None:
    chat = talk(store, "keep me")
    store.delete(chat)
    assert store.chats() == []
    assert store.chat(chat) is None
    store.undelete(chat)
    assert texts(store, chat) == ["keep me"]
    store.delete(chat)
    again = reopened(store)
    again.undelete(chat)
    assert again.chat(chat) is None
    assert again.messages(chat) == {}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("salt", True),
        ("SALTY", True),
        ("sea sal", True),
        ("größe", True),
        ("GRÖSSE", False),
        ("盐", True),
        ("sa", True),
        ("100%", True),
        ("pepper", False),
        ('a "quoted" word', True),
        ("%", True),
        ("_", False),
        ("AND OR NOT", False),
        ("", True),
    ],
)
def test_search(store: ChatStore, words: str, found: bool) -> None:
    talk(store, "Why is the sea salty? Größe, 盐", 'It is 100% a "quoted" word.', title="The sea")
    assert bool(store.chats(words)) is found


def test_search_finds_titles_and_forgets_changed_text(store: ChatStore) -> None:
    chat = talk(store, "first words", title="Birthday poem")
    message = next(iter(store.messages(chat).values()))
    assert store.chats("birth")
    store.save_message(replace(message, text="other words"))
    assert not store.chats("first")
    assert store.chats("other")


def test_a_streaming_message_is_found_once_complete(store: ChatStore) -> None:
    chat = store.add_chat("x")
    message = store.add_message(chat.id, None, "assistant", "", state=State.STREAMING)
    store.save_message(replace(message, text="half an answ"))
    assert not store.chats("half")
    store.save_message(replace(message, text="half an answer", state=State.DONE))
    assert store.chats("half an answer")


def test_versions_and_switching(store: ChatStore) -> None:
    chat = talk(store, "question", "first answer", "follow-up", "deep")
    ids = list(store.messages(chat))
    other = store.add_message(chat, ids[0], "assistant", "second answer")
    assert texts(store, chat) == ["question", "second answer"]
    assert versions_of(store.messages(chat), other.id) == [ids[1], other.id]
    assert store.show_version(chat, ids[1]) == ids[3]
    assert texts(store, chat)[-1] == "deep"


def test_branch_copies_the_path(store: ChatStore) -> None:
    chat = talk(store, "q", "a", "q2", "a2", title="Sea")
    new = store.branch(chat, list(store.messages(chat))[1])
    assert new.title == "Sea (branch)"
    assert texts(store, new.id) == ["q", "a"]
    assert texts(store, chat) == ["q", "a", "q2", "a2"]


def test_removing_a_message_ends_the_branch_at_its_parent(store: ChatStore) -> None:
    chat = talk(store, "q", "a", "q2")
    store.remove_message(list(store.messages(chat))[1])
    assert texts(store, chat) == ["q"]


def test_extras_come_back(store: ChatStore) -> None:
    chat = store.add_chat("x")
    files = (Attachment("notes.txt", "one\ntwo"),)
    message = store.add_message(chat.id, None, "user", "Read this", attachments=files)
    store.save_message(replace(message, stats={"tokens": 3}, note="n", dropped=(1, 2)))
    kept = store.messages(chat.id)[message.id]
    assert (kept.attachments, kept.stats, kept.note) == (files, {"tokens": 3}, "n")
    assert kept.dropped == (1, 2)
    assert kept.prompt == "File notes.txt:\n```\none\ntwo\n```\n\nRead this"


def test_a_killed_program_keeps_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "chats.sqlite"
    script = f"""
        import os, sys
        from dataclasses import replace
        from pathlib import Path
        from app.storage.chats import ChatStore
        from app.storage.records import State
        store = ChatStore(Path({str(path)!r}))
        chat = store.add_chat("x")
        message = store.add_message(chat.id, None, "assistant", "", state=State.STREAMING)
        store.save_message(replace(message, text="half an ans"))
        os._exit(9)
    """
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=root, check=False)
    store = ChatStore(path)
    (message,) = store.messages(store.chats()[0].id).values()
    store.close()
    assert (message.text, message.state) == ("half an ans", State.STOPPED)


@pytest.mark.parametrize("damage", [b"this is no database" * 100, b"\x00" * 4096])
def test_a_damaged_file_is_moved_aside(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "chats.sqlite"
    path.write_bytes(damage)
    store = ChatStore(path)
    talk(store, "works again")
    store.close()
    assert "damaged" in store.problem
    assert "moved to" in store.problem
    assert (tmp_path / "chats.broken-1.sqlite").read_bytes() == damage


def test_damage_in_the_middle_is_noticed(store: ChatStore) -> None:
    talk(store, *["long text " * 500] * 20)
    store.close()
    data = bytearray(store.path.read_bytes())
    data[8192:40960] = b"\xa5" * (40960 - 8192)
    store.path.write_bytes(data)
    again = ChatStore(store.path)
    again.close()
    assert "damaged" in again.problem


def test_a_newer_file_is_left_alone(store: ChatStore) -> None:
    talk(store, "from the future")
    store.close()
    with sqlite3.connect(store.path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    old = ChatStore(store.path)
    assert "newer version" in old.problem
    assert old.chats() == []
    talk(old, "works, in memory only")
    old.close()
    with sqlite3.connect(store.path) as db:
        assert db.execute("SELECT count(*) FROM messages").fetchone() == (1,)
    db.close()


def test_an_older_file_is_brought_up_to_date(
    store: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = talk(store, "old")
    more = (*schema.MIGRATIONS, "ALTER TABLE chats ADD COLUMN colour TEXT;")
    monkeypatch.setattr(schema, "MIGRATIONS", more)
    again = reopened(store)
    assert texts(again, chat) == ["old"]
    assert not again.problem
    again.close()


def test_a_full_disk_is_told(store: ChatStore) -> None:
    chat = talk(store, "a")
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageError, match="disk is full"):
        store.add_message(chat, None, "user", "x" * 100_000)
    assert texts(store, chat) == ["a"]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = ChatStore(tmp_path / "file" / "chats.sqlite")
    talk(store, "in memory")
    store.close()
    assert "not kept" in store.problem


def test_markdown_export(store: ChatStore) -> None:
    chat = talk(store, "Why?", "Because.", title="Sea")
    store.set_settings(chat, ChatSettings(system="Be kind."))
    found = store.chat(chat)
    assert found is not None
    text = to_markdown(found, store.messages(chat))
    assert text == "# Sea\n\n## System\n\nBe kind.\n\n## You\n\nWhy?\n\n## Answer\n\nBecause.\n"


def test_json_export_has_every_version(store: ChatStore) -> None:
    chat = talk(store, "Why?", "Because.")
    store.add_message(chat, next(iter(store.messages(chat))), "assistant", "No idea.")
    found = store.chat(chat)
    assert found is not None
    text = to_json(found, store.messages(chat))
    assert text.count('"role": "assistant"') == 2
    assert "No idea." in text


@pytest.mark.parametrize("title", ["a/b\\c:d", "..", "", "CON?", "x" * 300])
def test_file_names_are_safe(store: ChatStore, title: str) -> None:
    name = file_name(store.add_chat(title), "md")
    assert name.endswith(".md")
    assert not set(name[:-3]) & set('/\\:?*"<>|.')
    assert len(name) < 90
