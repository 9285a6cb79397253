"""The hub's token, kept in the system's keyring and nowhere else.

A keyring may ask the person to unlock it, or talk to another program for seconds: everything here
runs on a thread of its own, and the answer comes back as a signal.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QRunnable, QThreadPool, Signal

SERVICE = "driftwood"  # the engine reads the token under these names
USER = "hub-token"
NO_KEYRING = (
    "This system has no keyring that Driftwood can use, so the token was not kept. Set HF_TOKEN in "
    "the environment instead."
)


class _Job(QRunnable):
    def __init__(self, run: Callable[[], None]) -> None:
        super().__init__()
        self._run = run

    def run(self) -> None:
        self._run()


class TokenKeeper(QObject):
    """Keeps and forgets the token. Signals: kept(), forgotten(), failed(sentence)."""

    kept = Signal()
    forgotten = Signal()
    failed = Signal(str)

    def keep(self, token: str) -> None:
        """Put the token into the keyring."""
        self._start(lambda: self._write(token))

    def forget(self) -> None:
        """Take the token out of the keyring."""
        self._start(self._erase)

    def _start(self, run: Callable[[], None]) -> None:
        QThreadPool.globalInstance().start(_Job(run))

    def _write(self, token: str) -> None:
        import keyring
        import keyring.errors

        try:
            keyring.set_password(SERVICE, USER, token)
        except keyring.errors.KeyringError:
            self.failed.emit(NO_KEYRING)
        else:
            self.kept.emit()

    def _erase(self) -> None:
        import keyring
        import keyring.errors

        try:
            keyring.delete_password(SERVICE, USER)
        except keyring.errors.PasswordDeleteError:
            self.forgotten.emit()  # there was none
        except keyring.errors.KeyringError:
            self.failed.emit("The keyring did not answer, so the token is still there.")
        else:
            self.forgotten.emit()
