"""The tables of the chats file and how an older file becomes a newer one.

A migration is a list of statements; file version N has run the first N of MIGRATIONS. Never edit
one that was released: add another.
"""

from __future__ import annotations

import sqlite3

_FIRST = """
CREATE TABLE chats (
    id INTEGER PRIMARY KEY,
    title TEXT NOT NULL,
    created REAL NOT NULL,          -- seconds since 1970
    updated REAL NOT NULL,
    pinned INTEGER NOT NULL DEFAULT 0,
    deleted REAL,                   -- when; such a chat can be brought back until the next start
    settings TEXT NOT NULL DEFAULT '{}',  -- JSON: system, sampling, model, context
    leaf INTEGER                    -- the last message of the branch on show
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    chat INTEGER NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
    parent INTEGER REFERENCES messages(id) ON DELETE CASCADE,
    role TEXT NOT NULL,             -- user or assistant
    text TEXT NOT NULL,
    state TEXT NOT NULL,            -- see app.storage.records.State
    created REAL NOT NULL,
    extra TEXT NOT NULL DEFAULT '{}'  -- JSON: attachments, stats, model, note, dropped
);
CREATE INDEX messages_of_chat ON messages(chat);
CREATE INDEX children_of_message ON messages(parent);
CREATE INDEX chats_by_time ON chats(updated);
CREATE VIRTUAL TABLE words USING fts5(
    text, content='messages', content_rowid='id', tokenize='trigram'
);
-- A message that is still being written is indexed once it is complete.
CREATE TRIGGER words_insert AFTER INSERT ON messages WHEN new.state <> 'streaming' BEGIN
    INSERT INTO words(rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER words_delete AFTER DELETE ON messages WHEN old.state <> 'streaming' BEGIN
    INSERT INTO words(words, rowid, text) VALUES ('delete', old.id, old.text);
END;
CREATE TRIGGER words_forget BEFORE UPDATE OF text, state ON messages
WHEN old.state <> 'streaming' BEGIN
    INSERT INTO words(words, rowid, text) VALUES ('delete', old.id, old.text);
END;
CREATE TRIGGER words_learn AFTER UPDATE OF text, state ON messages
WHEN new.state <> 'streaming' BEGIN
    INSERT INTO words(rowid, text) VALUES (new.id, new.text);
END;
"""

MIGRATIONS: tuple[str, ...] = (_FIRST,)


class NewerFileError(Exception):
    """The file was written by a newer version of the program."""


def version_of(connection: sqlite3.Connection) -> int:
    """How many migrations the file has run."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to the newest version, each step whole or not at all."""
    version = version_of(connection)
    if version > len(MIGRATIONS):
        raise NewerFileError
    for number, script in enumerate(MIGRATIONS[version:], version + 1):
        connection.executescript(f"BEGIN;\n{script}\nPRAGMA user_version = {number};\nCOMMIT;")
