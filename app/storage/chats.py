"""All chats in one SQLite file: written ahead (WAL), so a crash loses at most what was not saved.

Every method takes a few milliseconds and may be called on the window's thread. Every method that
writes raises StorageError with a sentence when it cannot, e.g. when the disk is full.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from app.storage.files import StorageError, move_aside
from app.storage.records import (
    Attachment,
    Chat,
    ChatSettings,
    Message,
    State,
    newest_leaf,
    path_to,
)
from app.storage.schema import NewerFileError, migrate

log = logging.getLogger(__name__)

_EXTRA = ("model", "note", "details", "attachments", "stats", "dropped")
_CHECKED_BYTES = 32 * 2**20  # a file up to this size is checked at every start
_NOT_KEPT = "What you write now is not kept after you close the window."


class ChatStore:
    """The chats of one home.

    Attributes: path; problem (a sentence about a file that could not be used, else "").
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""
        self._db = self._open()
        with self._write():
            self._db.execute("DELETE FROM chats WHERE deleted IS NOT NULL")
            self._db.execute(
                "UPDATE messages SET state = ? WHERE state = ?", (State.STOPPED, State.STREAMING)
            )

    def close(self) -> None:
        """Write everything out and close the file."""
        with suppress(sqlite3.Error):
            self._db.execute("PRAGMA optimize")
        self._db.close()

    # ---- chats -------------------------------------------------------------------------------

    def chats(self, search: str = "") -> list[Chat]:
        """The chats, newest first; with `search` those whose title or messages contain it."""
        where, values = "deleted IS NULL", ()
        if wanted := search.strip():
            is_long = len(wanted) >= 3
            where += f" AND id IN ({_LONG if is_long else _SHORT})"
            values = (_like(wanted), _phrase(wanted) if is_long else _like(wanted))
        rows = self._db.execute(
            f"SELECT * FROM chats WHERE {where} ORDER BY updated DESC, id DESC", values
        )
        return [_chat(row) for row in rows]

    def chat(self, number: int) -> Chat | None:
        """One chat, None if it is not there or deleted."""
        row = self._db.execute(
            "SELECT * FROM chats WHERE id = ? AND deleted IS NULL", (number,)
        ).fetchone()
        return None if row is None else _chat(row)

    def add_chat(self, title: str, settings: ChatSettings | None = None) -> Chat:
        """A new, empty chat."""
        now = time.time()
        with self._write():
            cursor = self._db.execute(
                "INSERT INTO chats (title, created, updated, settings) VALUES (?, ?, ?, ?)",
                (title, now, now, _settings_json(settings or ChatSettings())),
            )
        chat = self.chat(int(cursor.lastrowid or 0))
        assert chat is not None
        return chat

    def rename(self, number: int, title: str) -> None:
        """Give a chat another title."""
        self._update_chat(number, title=title)

    def pin(self, number: int, pinned: bool) -> None:
        """Keep a chat at the top of the list, or not."""
        self._update_chat(number, pinned=int(pinned))

    def delete(self, number: int) -> None:
        """Take a chat off the list; `undelete` brings it back until the next start."""
        self._update_chat(number, deleted=time.time())

    def undelete(self, number: int) -> None:
        """Bring a deleted chat back."""
        self._update_chat(number, deleted=None)

    def set_settings(self, number: int, settings: ChatSettings) -> None:
        """Keep the side panel's values of a chat."""
        self._update_chat(number, settings=_settings_json(settings))

    def set_leaf(self, number: int, leaf: int | None) -> None:
        """Show another branch of a chat."""
        self._update_chat(number, leaf=leaf)

    # ---- messages ----------------------------------------------------------------------------

    def messages(self, chat: int) -> dict[int, Message]:
        """Every message of a chat with all versions, by id."""
        rows = self._db.execute("SELECT * FROM messages WHERE chat = ? ORDER BY id", (chat,))
        return {row["id"]: _message(row) for row in rows}

    def add_message(
        self,
        chat: int,
        parent: int | None,
        role: str,
        text: str,
        *,
        state: State = State.DONE,
        model: str = "",
        attachments: tuple[Attachment, ...] = (),
    ) -> Message:
        """A new message below `parent`; it becomes the end of the branch on show."""
        now = time.time()
        message = Message(
            0, chat, parent, role, text, state, now, model=model, attachments=attachments
        )
        with self._write():
            cursor = self._db.execute(
                "INSERT INTO messages (chat, parent, role, text, state, created, extra)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (chat, parent, role, text, state, now, _extra_json(message)),
            )
            number = int(cursor.lastrowid or 0)
            self._db.execute(
                "UPDATE chats SET leaf = ?, updated = ? WHERE id = ?", (number, now, chat)
            )
        return replace(message, id=number)

    def save_message(self, message: Message) -> None:
        """Write a message's text, state and extras."""
        with self._write():
            self._db.execute(
                "UPDATE messages SET text = ?, state = ?, extra = ? WHERE id = ?",
                (message.text, message.state, _extra_json(message), message.id),
            )

    def remove_message(self, number: int) -> None:
        """Remove a message and what follows it; the branch on show ends at its parent."""
        row = self._db.execute("SELECT * FROM messages WHERE id = ?", (number,)).fetchone()
        if row is None:
            return
        with self._write():
            self._db.execute("DELETE FROM messages WHERE id = ?", (number,))
            self._db.execute("UPDATE chats SET leaf = ? WHERE id = ?", (row["parent"], row["chat"]))

    def branch(self, chat: int, upto: int) -> Chat:
        """A new chat with a copy of the messages from the first to `upto`."""
        old = self.chat(chat)
        if old is None:
            raise StorageError("The chat to branch from is no longer there.")
        path = path_to(self.messages(chat), upto)
        new = self.add_chat(f"{old.title} (branch)", old.settings)
        parent: int | None = None
        for one in path:
            copy = self.add_message(
                new.id, parent, one.role, one.text, model=one.model, attachments=one.attachments
            )
            self.save_message(replace(one, id=copy.id, dropped=()))
            parent = copy.id
        return self.chat(new.id) or new

    def show_version(self, chat: int, number: int) -> int:
        """Make the branch through a message the one on show; returns its last message's id."""
        leaf = newest_leaf(self.messages(chat), number)
        self.set_leaf(chat, leaf)
        return leaf

    # ---- the file ----------------------------------------------------------------------------

    def _update_chat(self, number: int, **values: Any) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        with self._write():
            self._db.execute(f"UPDATE chats SET {names} WHERE id = ?", (*values.values(), number))

    @contextmanager
    def _write(self) -> Iterator[None]:
        """A transaction; errors become sentences."""
        try:
            with self._db:
                yield
        except sqlite3.Error as error:
            log.warning("chats file: %s", error)
            raise StorageError(_sentence(error, self.path)) from error

    def _open(self) -> sqlite3.Connection:
        """The file, or a fresh one beside a damaged one, or memory when there is no place."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return _connect(self.path)
        except NewerFileError:
            self.problem = (
                "Your chats were saved by a newer version of Driftwood, which this version cannot "
                f"read. Install the newer version to see them. {_NOT_KEPT}"
            )
        except sqlite3.OperationalError as error:
            self.problem = f"{_sentence(error, self.path)} {_NOT_KEPT}"
        except sqlite3.DatabaseError as error:
            log.warning("chats file: %s", error)
            return self._start_anew()
        except OSError as error:
            self.problem = f"{self.path.parent} cannot be used: {error.strerror}. {_NOT_KEPT}"
        return _connect(Path(":memory:"))

    def _start_anew(self) -> sqlite3.Connection:
        aside = move_aside(self.path)
        for suffix in ("-wal", "-shm"):
            companion = self.path.with_name(self.path.name + suffix)
            if companion.exists():
                companion.replace(aside.with_name(aside.name + suffix))
        self.problem = (
            f"The file with your chats was damaged. It was moved to {aside} and a new one was "
            "started. Nothing else was lost."
        )
        return _connect(self.path)


def _connect(path: Path) -> sqlite3.Connection:
    """Open, check and migrate. Raises sqlite3.DatabaseError for a damaged file, NewerFileError."""
    is_small = path.exists() and path.stat().st_size <= _CHECKED_BYTES
    connection = sqlite3.connect(path, timeout=2.0)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = FAST")
        if is_small:
            verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if verdict != "ok":
                raise sqlite3.DatabaseError(verdict)
        migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _sentence(error: sqlite3.Error, path: Path) -> str:
    words = str(error)
    if "full" in words:
        return "The disk is full, so the chat could not be saved. Free some space and try again."
    if "readonly" in words or "unable to open" in words:
        return f"{path} may not be written, so chats are not saved. Check the folder's permissions."
    if "locked" in words:
        return "The chats file is in use by another program. Close it and try again."
    return f"The chat could not be saved ({words})."


_IN_TITLE = "SELECT id FROM chats WHERE title LIKE ? ESCAPE '\\' UNION "
# Below three characters the index of words knows nothing, so every text is looked at.
_SHORT = _IN_TITLE + "SELECT chat FROM messages WHERE text LIKE ? ESCAPE '\\'"
_LONG = _IN_TITLE + (
    "SELECT chat FROM messages WHERE id IN (SELECT rowid FROM words WHERE words MATCH ?)"
)


def _like(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _phrase(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _settings_json(settings: ChatSettings) -> str:
    return json.dumps(asdict(settings))


def _chat(row: sqlite3.Row) -> Chat:
    known = ChatSettings.__dataclass_fields__
    values = {k: v for k, v in _mapping(row["settings"]).items() if k in known}
    return Chat(
        id=row["id"],
        title=row["title"],
        created=row["created"],
        updated=row["updated"],
        pinned=bool(row["pinned"]),
        settings=ChatSettings(**values),
        leaf=row["leaf"],
    )


def _extra_json(message: Message) -> str:
    values = asdict(message)
    return json.dumps({name: values[name] for name in _EXTRA if values[name]})


def _message(row: sqlite3.Row) -> Message:
    extra = dict(_mapping(row["extra"]))
    files = tuple(Attachment(a["name"], a["text"]) for a in extra.pop("attachments", ()))
    dropped = tuple(extra.pop("dropped", ()))
    return Message(
        id=row["id"],
        chat=row["chat"],
        parent=row["parent"],
        role=row["role"],
        text=row["text"],
        state=State(row["state"]),
        created=row["created"],
        attachments=files,
        dropped=dropped,
        **{name: value for name, value in extra.items() if name in _EXTRA},
    )


def _mapping(text: str) -> Mapping[str, Any]:
    value = json.loads(text)
    return value if isinstance(value, dict) else {}
