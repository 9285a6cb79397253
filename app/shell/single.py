"""One window a home: a second start brings the first one's window to the front and ends."""

from __future__ import annotations

import getpass
import hashlib
import logging
import os
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject, Qt, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket
from PySide6.QtWidgets import QWidget

log = logging.getLogger(__name__)

PATIENCE_MS = 2_000
TOKEN = "XDG_ACTIVATION_TOKEN"  # by which a Wayland desktop lets another program take the focus
_HEARD = b"ok\n"
_LONGEST = 4096  # bytes of a greeting


def claim(lock_file: Path) -> QLockFile | None:
    """The lock of this home, None while another window holds it."""
    lock = QLockFile(str(lock_file))
    lock.setStaleLockTime(0)
    taken = not lock.tryLock(100) and lock.error() == QLockFile.LockError.LockFailedError
    return None if taken else lock


def server_name(lock_file: Path) -> str:
    """What the window of a home listens on; another user's has another name."""
    about = f"{getpass.getuser()} {lock_file}"
    return f"driftwood-{hashlib.sha256(about.encode('utf-8', 'replace')).hexdigest()[:16]}"


def raise_other(name: str) -> bool:
    """Ask the window that is open already to come to the front; False if it does not answer."""
    socket = QLocalSocket()
    socket.connectToServer(name)
    if not socket.waitForConnected(PATIENCE_MS):
        return False
    socket.write(os.environ.get(TOKEN, "").encode("utf-8", "replace")[:_LONGEST] + b"\n")
    heard = socket.waitForReadyRead(PATIENCE_MS) and bytes(socket.readAll().data()) == _HEARD
    socket.abort()
    return heard


class Doorbell(QObject):
    """Hears that another start was tried. Signals: rung()."""

    rung = Signal()

    def __init__(self, name: str, parent: QObject) -> None:
        super().__init__(parent)
        QLocalServer.removeServer(name)  # one that a crash left behind; the lock is ours
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._welcome)
        if not self._server.listen(name):
            log.warning("a second start will not find this window: %s", self._server.errorString())

    def _welcome(self) -> None:
        while (socket := self._server.nextPendingConnection()) is not None:
            socket.readyRead.connect(lambda one=socket: self._read(one))
            socket.disconnected.connect(socket.deleteLater)

    def _read(self, socket: QLocalSocket) -> None:
        if socket.bytesAvailable() > _LONGEST:
            socket.abort()
        if not socket.canReadLine():
            return
        token = bytes(socket.readLine().data()).decode("utf-8", "replace").strip()
        if token:
            os.environ[TOKEN] = token  # Qt looks for it when a window asks for the focus
        socket.write(_HEARD)
        socket.flush()
        self.rung.emit()


def bring_to_front(window: QWidget) -> None:
    """Show a window that may be minimised or behind others."""
    window.setWindowState(
        (window.windowState() & ~Qt.WindowState.WindowMinimized) | Qt.WindowState.WindowActive
    )
    window.show()
    window.raise_()
    window.activateWindow()
