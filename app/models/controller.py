"""What happens on the Models page: the worker is asked, the page is shown what it answered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QFileDialog

from app.memory.feed import feed_of
from app.memory.model import MemoryState, looks_same
from app.memory.units import size
from app.models.cards import (
    LOAD_WORDS,
    DiscoverCard,
    DownloadCard,
    InstalledCard,
    LoadProgress,
)
from app.models.details import DetailsDialog
from app.models.downloads import Download
from app.models.fit import Need, Room
from app.models.hub_address import address_problem, hub_name
from app.models.model import (
    ModelsState,
    disk_words,
    file_problem,
    fit_of,
    fit_of_entry,
    need_at,
    removal_words,
    room_of,
    search,
    state_from,
    title_from,
)
from app.models.page import ModelsPage
from app.models.transfers import transfers_of
from app.shell.page import AppContext
from app.widgets import Action, confirm
from app.widgets.reveal import reveal
from engine.worker.protocol import Event

OFFLINE = "Downloads are switched off in Settings, so nothing was fetched."


class ModelsController(QObject):
    """Joins the page to the worker.

    Attributes: state (what models_list told), transfers (the queue).
    """

    def __init__(self, context: AppContext, page: ModelsPage) -> None:
        super().__init__(page)
        self._context = context
        self._page = page
        self._feed = feed_of(context.engine)
        self._loading: dict[str, tuple[int, LoadProgress]] = {}
        self._shown_memory: MemoryState | None = None
        self._listing = 0
        self._again = False
        self._known = False
        self.state = ModelsState()
        self.transfers = transfers_of(context.engine, context.settings)
        self._connect()
        self.refresh()

    def _connect(self) -> None:
        page, engine = self._page, self._context.engine
        page.tab_chosen.connect(page.show_tab)
        page.search_changed.connect(self.render)
        page.files_dropped.connect(self.add_files)
        page.add_asked.connect(self.choose_file)
        page.starter_asked.connect(self.get_starter)
        page.more.get_asked.connect(self.get_from_hub)
        page.network_asked.connect(self.open_network_settings)
        page.shown.connect(self.refresh)
        page.stop_asked.connect(self.stop_loads)
        page.wished.connect(self.grant)
        engine.worker_started.connect(self.refresh)
        engine.busy_changed.connect(self._follow_work)
        self._feed.state_changed.connect(self._follow_memory)
        self.transfers.changed.connect(self.render)
        self.transfers.finished.connect(self._welcome)
        self.transfers.failed.connect(self._report_transfer)
        self._context.settings.changed.connect(self._follow_setting)

    def refresh(self) -> None:
        """Ask the worker what there is; a second wish while one is open is asked once after it."""
        if self._listing:
            self._again = True
            return
        self._listing = self._context.engine.request("models_list", self._take_list)

    def load(self, name: str, context: int = 0) -> None:
        """Load a model, with a context in tokens or (0) the one of the settings."""
        card = self.state.model(name)
        if card is None or name in self._loading:
            return
        fields = {"context": wanted} if (wanted := context or self._usual_context()) else {}
        words = LoadProgress("Waiting for the engine")
        request = self._context.engine.request(
            "load", partial(self._hear_load, name, card.title), model=name, **fields
        )
        self._loading[name] = (request, words)
        self.render()

    def stop_load(self, name: str) -> None:
        """Stop a load that is under way."""
        if name in self._loading:
            self._context.engine.stop(self._loading[name][0])

    def stop_loads(self) -> None:
        """Stop every load of this page: the person pressed Esc."""
        for name in list(self._loading):
            self.stop_load(name)

    def unload(self, _name: str) -> None:
        """Take the loaded model off the GPU."""
        self._context.engine.request("unload", self._hear_simple)

    def remove(self, name: str) -> None:
        """Ask whether to delete a model, naming the file and the bytes; then delete it."""
        card = self.state.model(name)
        if card is None:
            return
        title = f"Remove {card.title}?"
        then = partial(self._remove_now, name, card.title, card.loaded)
        words = f"Delete and free {size(card.nbytes)}"
        confirm(self._page, title, removal_words(card), words, then, destructive=True)

    def show_details(self, name: str) -> None:
        """Open the details of a model; what is inside the file follows from the worker."""
        card = self.state.model(name)
        if card is None:
            return
        dialog = DetailsDialog(self._page, card)
        request = self._context.engine.request("model_info", dialog.take_event, name=name)
        dialog.finished.connect(lambda _result: self._context.engine.forget(request))
        dialog.reveal_asked.connect(lambda: self.show_in_file_manager(name))
        dialog.open()

    def show_in_file_manager(self, name: str) -> None:
        """Open the system's file manager at the file of a model."""
        card = self.state.model(name)
        if card is not None and not reveal(Path(card.path)):
            self._context.messages.error(f"No file manager opened. The file is {card.path}.")

    def choose_file(self) -> None:
        """Let the person choose files to add."""
        dialog = QFileDialog(self._page, "Add a model file")
        dialog.setObjectName("models_file_dialog")
        dialog.setNameFilters(["Model files (*.gguf *.safetensors)", "All files (*)"])
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.filesSelected.connect(self.add_files)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def add_files(self, paths: list[str]) -> None:
        """Copy files into the models folder; the worker looks inside each first."""
        for path in paths:
            problem = None if Path(path).is_dir() else file_problem(path)
            if problem is not None:
                self._context.messages.error(problem)
            else:
                self._page.show_tab("installed")
                self.transfers.copy(path, title_from(Path(path).name))

    def get(self, name: str) -> None:
        """Download an entry of the catalogue."""
        entry = self.state.entry(name)
        if entry is not None and self._may_download():
            self.transfers.quiet.discard(name)
            self.transfers.get(name, entry.title, entry.nbytes)

    def get_from_hub(self, text: str) -> None:
        """Download the file of the hub that the person named."""
        name = hub_name(text)
        self._page.more.show_problem(address_problem(text))
        if name is not None and self._may_download():
            self.transfers.get(name, title_from(name.rpartition("/")[2]), 0)
            self._page.more.clear()
            self._page.show_tab("downloads")

    def get_starter(self) -> None:
        """Download the starter, and show how it goes."""
        starter = self.state.starter
        if starter is not None:
            self.get(starter.name)

    def open_network_settings(self) -> None:
        """Go to the switch that allows downloads."""
        self._context.go_to("settings", section="network")

    def grant(self, wishes: dict[str, object]) -> None:
        """What another page asked for: tab=, get= (a catalogue name), add= (paths)."""
        if isinstance(tab := wishes.get("tab"), str):
            self._page.show_tab(tab)
        if isinstance(name := wishes.get("get"), str):
            self.get(name)
        if isinstance(paths := wishes.get("add"), list):
            self.add_files([str(path) for path in paths])

    def render(self, *_: object) -> None:
        """Show everything as it is now."""
        page = self._page
        items = self.transfers.queue.items
        page.offline.setVisible(not self.transfers.allowed)
        self._render_installed()
        page.discover.arrange([card.name for card in self.state.catalogue], self._discover_card)
        page.downloads.arrange([item.name for item in items], self._download_card)
        page.no_downloads.setVisible(not items)
        for item in items:
            for cards in (page.downloads.cards, page.installed.cards):
                if isinstance(card := cards.get(item.name), DownloadCard):
                    card.show_download(item)
        gets = sum(item.kind == "get" for item in items)
        page.show_counts(len(self.state.models), gets, disk_words(self.state))
        self.render_fits()

    def _render_installed(self) -> None:
        page = self._page
        words = page.search.text()
        found = search(self.state.models, words)
        names = [card.name for card in found]
        coming = [item.name for item in self.transfers.queue.items if item.name not in names]
        page.installed.arrange([*names, *(() if words else coming)], self._installed_card)
        page.no_match.setText(f"No installed model matches “{words}”.")
        page.no_match.setVisible(bool(self.state.models) and not found)
        page.empty.setVisible(self._known and not self.state.models and not coming)
        starter = self.state.starter
        if starter is not None and page.empty.button is not None:
            page.empty.button.setText(f"Get {starter.title} ({size(starter.nbytes)})")
        elif page.empty.button is not None:
            page.empty.button.setVisible(False)

    def render_fits(self, *_: object) -> None:
        """Show the lines about memory as it is now; unchanged words are not painted again."""
        memory, headroom, wanted = self._feed.state, self._headroom(), self._usual_context()
        self._shown_memory = memory
        for model in self.state.models:
            card = self._page.installed.cards.get(model.name)
            if isinstance(card, InstalledCard):
                loading = self._loading.get(model.name)
                line = fit_of(model, self.state, memory, headroom, wanted)
                card.show_card(model, line, loading[1] if loading else None)
        for entry in self.state.catalogue:
            shown = self._page.discover.cards.get(entry.name)
            if isinstance(shown, DiscoverCard):
                download = self.transfers.queue.find(entry.name)
                shown.show_card(entry, fit_of_entry(entry, memory, headroom, wanted), download)

    def _installed_card(self, name: str) -> InstalledCard | DownloadCard:
        model = self.state.model(name)
        if model is None:
            return self._download_card(name, "coming")
        card = InstalledCard(model)
        card.load_asked.connect(self.load)
        card.unload_asked.connect(self.unload)
        card.stop_asked.connect(self.stop_load)
        card.details_asked.connect(self.show_details)
        card.reveal_asked.connect(self.show_in_file_manager)
        card.remove_asked.connect(self.remove)
        card.hovered.connect(self._mark_need)
        return card

    def _discover_card(self, name: str) -> DiscoverCard:
        entry = self.state.entry(name)
        assert entry is not None, name
        card = DiscoverCard(entry)
        card.get_asked.connect(self.get)
        card.hovered.connect(self._mark_need)
        return card

    def _download_card(self, name: str, prefix: str = "download") -> DownloadCard:
        item = self.transfers.queue.find(name) or Download(name, name, 0)
        card = DownloadCard(item, prefix)
        card.pause_asked.connect(self.transfers.pause)
        card.resume_asked.connect(self._resume)
        card.cancel_asked.connect(self.transfers.cancel)
        return card

    def _resume(self, name: str) -> None:
        item = self.transfers.queue.find(name)
        if item is not None and (item.kind == "copy" or self._may_download()):
            self.transfers.resume(name)

    def _mark_need(self, name: str) -> None:
        """Mark in the meters what the model under the pointer would need beyond what is held."""
        need = self._need_of(name)
        if need is None:
            self._feed.show_needed(None)
            return
        room: Room = room_of(self._feed.state, 0)
        self._feed.show_needed(max(0, need.total - room.unloading) or None)

    def _need_of(self, name: str) -> Need | None:
        model = self.state.model(name)
        wanted = self._usual_context()
        if model is not None:
            nothing = model.loaded or model.problem
            return None if nothing else need_at(model.need, wanted, model.context_max)
        entry = self.state.entry(name)
        return None if entry is None else need_at(entry.need, wanted, entry.context)

    def _take_list(self, event: Event) -> None:
        if not event.final:
            return
        self._listing = 0
        if event.event == "done":
            self._known = True
            self.state = state_from(event.fields)
            self.render()
        if self._again:
            self._again = False
            self.refresh()

    def _hear_load(self, name: str, title: str, event: Event) -> None:
        if event.event == "progress" and name in self._loading:
            phase = str(event.get("phase") or "")
            words = LOAD_WORDS.get(phase, "Loading")
            total, done = event.get("total") or 0, event.get("done") or 0
            progress = LoadProgress(words, done / total if total else None)
            self._loading[name] = (self._loading[name][0], progress)
            self.render_fits()
        if not event.final:
            return
        self._loading.pop(name, None)
        if event.event == "error" and event.get("code") != "cancelled":
            words = str(event.get("message") or f"{title} could not be loaded.")
            retry = Action("Retry", partial(self.load, name))
            self._context.messages.error(words, event.get("details"), retry)
        self.refresh()

    def _hear_simple(self, event: Event) -> None:
        if event.event == "error":
            self._context.messages.error(str(event.get("message")), event.get("details"))
        self.refresh()

    def _remove_now(self, name: str, title: str, loaded: bool) -> None:
        if loaded:
            self._context.engine.request("unload", None)
        self._context.engine.request("model_remove", partial(self._hear_remove, title), name=name)

    def _hear_remove(self, title: str, event: Event) -> None:
        if event.event == "done":
            freed = event.get("freed_bytes") or 0
            self._context.messages.toast(f"{title} was removed. {size(freed)} are free again.")
        self._hear_simple(event)

    def _welcome(self, item: Download, model: object) -> None:
        """A model arrived."""
        self.refresh()
        if item.name in self.transfers.quiet:
            return
        entry = self.state.entry(item.name)
        title = entry.title if entry else item.title
        draws = isinstance(model, Mapping) and model.get("kind") == "image"
        words, page = ("Draw with it", "images") if draws else ("Chat with it", "chat")
        use = Action(words, lambda: self._context.go_to(page))
        self._context.messages.toast(f"{title} is ready.", use, seconds=8)

    def _report_transfer(self, item: Download, words: str, details: str) -> None:
        if item.name in self.transfers.quiet:
            return
        action = None if item.kind == "copy" else Action("Retry", partial(self._resume, item.name))
        self._context.messages.error(words, details or None, action)
        self.refresh()

    def _may_download(self) -> bool:
        if self.transfers.allowed:
            return True
        action = Action("Open settings", self.open_network_settings)
        self._context.messages.toast(OFFLINE, action, kind="warning")
        return False

    def _follow_memory(self, memory: MemoryState) -> None:
        """A new reading; one that reads like the last changes no line."""
        if not looks_same(self._shown_memory, memory):
            self.render_fits()

    def _follow_work(self, busy: bool) -> None:
        if not busy:  # a chat may have loaded another model
            self.refresh()

    def _follow_setting(self, key: str, _value: object) -> None:
        if key in ("memory.headroom_bytes", "context", "models_folder"):
            self.refresh()

    def _usual_context(self) -> int:
        return int(self._context.settings.get("context") or 0)

    def _headroom(self) -> int:
        return int(self._context.settings.get("memory.headroom_bytes") or 0)
