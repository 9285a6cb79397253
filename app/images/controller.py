"""What happens on the Images page: the form, the queue and the gallery are joined here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer

from app.images.drawing import Drawing
from app.images.files_control import FilesControl
from app.images.fit import Fit, FitControl, fit_words
from app.images.gallery_control import GalleryControl
from app.images.jobs import Job, Live
from app.images.known import KnownFiles
from app.images.models import PictureModels
from app.images.recall import Recall
from app.images.start_control import StartControl
from app.images.studio import Studio
from app.images.values import (
    PREDICTIONS,
    Values,
    adapted,
    defaults_of,
    kept,
    order,
    pictures_words,
    random_seed,
    sampler_words,
    shortened,
    values_from,
)
from app.memory.units import join_words
from app.shell.page import AppContext
from app.widgets import Action
from engine.worker.protocol import Event

FORM = "images.form"  # the setting that keeps the form over a restart
PREDICTIONS_KEPT = "images.predictions"  # the setting: a model -> what it was said to predict
COUNT_AFTER_MS = 250
KEEP_AFTER_MS = 1500
MOST_CUT = 120  # letters of what is cut that are shown
NO_PROMPT = "Say first what the picture shall show."


def pictures_folder(context: AppContext) -> Path:
    """Where finished pictures are kept."""
    return context.places.data / "pictures"


class StudioController(QObject):
    """Joins the studio to the worker. Attributes: drawing, gallery, start."""

    def __init__(self, context: AppContext, studio: Studio, models: PictureModels) -> None:
        super().__init__(studio)
        self._context = context
        self._studio = studio
        self._models = models
        self._counting: list[int] = []
        folder = pictures_folder(context)
        self.drawing = Drawing(context.engine, folder)
        self.gallery = GalleryControl(context, studio, folder)
        self._known_files = KnownFiles(context.settings)
        self.start = StartControl(context, studio.form, self._model_size, self._known_files)
        self.files = FilesControl(context, studio.form, self._known_files)
        self.fit = FitControl(context.engine, self)
        self._recall = Recall(context, studio, models, self._known_files, self._fill, self._draw)
        self._known = ""  # the model whose facts the form shows
        self._count_later = self._timer(COUNT_AFTER_MS, self._count)
        self._keep_later = self._timer(KEEP_AFTER_MS, self._keep)
        self._connect()

    def show_models(self) -> None:
        """The models or the current one's facts changed."""
        models, form = self._models, self._studio.form
        info = models.info
        form.show_models(models.models, models.current, models.title)
        self._studio.examples.show_model(info.good_at, info.prompts)
        if self._known != info.model:
            is_first = not self._known
            old = form.values()
            form.show_info(info)
            self._known = info.model
            recalled = self._recall.awaited(info.model)
            form.show_values(recalled or (self._first_values() if is_first else self._adapted(old)))
            self.start.show_small()
            self.files.show_model(info.model)
            self._count()
        self._ask_fit()
        self._show_draw()

    def draw(self) -> None:
        """Put what the form says into the queue."""
        form = self._studio.form
        values = form.usable()
        if self._too_large():
            return
        if not values.prompt.strip():
            form.show_tokens("", NO_PROMPT, True)
            form.prompt.setFocus()
            return
        seed = random_seed() if values.seed is None else values.seed
        form.seed.note_used(seed)
        self._draw(replace(values, seed=seed))

    def page_shown(self) -> None:
        """The page came to the front: look into the folder, and at the memory."""
        self.gallery.refresh()
        self.fit.ask_again()

    def open_files(self, paths: list[Path]) -> None:
        """Pictures were dropped: settings inside are recalled, else one starts from it."""
        if not paths:
            return
        path = paths[0]
        if path.suffix.lower() == ".png":
            self._recall.use(path, self._start_from)
        else:
            self.start.use(str(path))

    def stop_work(self) -> bool:
        """Esc: back from the large view, else empty the search, else stop drawing."""
        studio = self._studio
        if studio.shows_viewer:
            studio.show_gallery()
            return True
        if studio.gallery.search.text():
            studio.gallery.search.clear()
            return True
        return self.drawing.cancel()

    def shut_down(self) -> None:
        """The program ends."""
        self._keep()
        self.drawing.shut_down()
        self.gallery.shut_down()
        self.start.shut_down()
        self.fit.shut_down()

    def _connect(self) -> None:
        form, running = self._studio.form, self._studio.running
        form.draw_wanted.connect(self.draw)
        form.words_changed.connect(self._count_later.start)
        form.changed.connect(self._keep_later.start)
        form.changed.connect(self._show_draw)
        form.changed.connect(self._ask_fit)
        form.fit.size_wanted.connect(self._take_size)
        self.fit.told.connect(self._show_fit)
        self._context.engine.worker_started.connect(self.fit.ask_again)
        form.model_chosen.connect(self._models.choose)
        form.models_wanted.connect(lambda: self._context.go_to("models", tab="discover"))
        self._studio.examples.chosen.connect(self._take_example)
        drawing = self.drawing
        drawing.changed.connect(self._show_jobs)
        drawing.advanced.connect(self._show_live)
        drawing.previewed.connect(running.preview.set_image)
        drawing.stopping.connect(running.show_stopping)
        drawing.picture_made.connect(self.gallery.add)
        drawing.warned.connect(self._warn)
        drawing.emptied.connect(self._tell_elsewhere)
        running.cancel_wanted.connect(drawing.cancel)
        running.removed.connect(drawing.remove)
        running.moved_up.connect(drawing.move_up)
        running.retried.connect(drawing.retry)
        self.gallery.asked.connect(self._do_for_form)

    def _draw(self, values: Values) -> None:
        self.drawing.add(values, self._models.current, self._models.title)

    def _do_for_form(self, name: str, path: Path) -> None:
        if name == "use":
            self._recall.use(path)
        elif name == "vary":
            self._recall.vary(path)
        else:
            self._studio.show_gallery()
            self.start.use(str(path))

    def _fill(self, values: Values) -> None:
        form = self._studio.form
        form.show_values(values)
        self.start.show_small()
        self.files.check()
        form.changed.emit()
        self._count()

    def _start_from(self, path: Path, _why: str) -> None:
        if self._models.info.img2img:
            self.start.use(str(path))
            text = f"{path.name} carries no settings, so it is the start picture now."
            self._context.messages.toast(text)
        else:
            self._recall.tell_nothing_inside(path, _why)

    def _take_example(self, prompt: str) -> None:
        form = self._studio.form
        form.prompt.setPlainText(prompt)
        form.prompt.setFocus()
        form.prompt.moveCursor(form.prompt.textCursor().MoveOperation.End)

    def _first_values(self) -> Values:
        """The form of last time if the model is the same, else what the model likes."""
        info = self._models.info
        own = defaults_of(info)
        before = self._context.settings.get(FORM, {})
        if not isinstance(before, dict):
            return own
        values = values_from(before, own)
        return values if before.get("model") == info.model else self._adapted(values)

    def _adapted(self, values: Values) -> Values:
        """The form with the model's own settings, and what the person said that it predicts."""
        info = self._models.info
        kept = self._context.settings.get(PREDICTIONS_KEPT, {})
        said = kept.get(info.model) if isinstance(kept, dict) else None
        made = adapted(values, info)
        return replace(made, prediction=said) if said in PREDICTIONS else made

    def _keep(self) -> None:
        self._keep_later.stop()
        if self._known:
            values = {**kept(self._studio.form.values()), "model": self._known}
            self._context.settings.set(FORM, values)
            self._keep_prediction(str(values["prediction"]))

    def _keep_prediction(self, prediction: str) -> None:
        """What a model predicts is true of it for good, however the form changes."""
        before = self._context.settings.get(PREDICTIONS_KEPT, {})
        said = dict(before) if isinstance(before, dict) else {}
        if said.get(self._known, "") != prediction:
            said[self._known] = prediction
            self._context.settings.set(PREDICTIONS_KEPT, said)

    def _count(self) -> None:
        """Ask how many tokens the prompt and what is left out have."""
        self._count_later.stop()
        form = self._studio.form
        tells = (form.prompt, self._show_tokens), (form.negative, self._show_negative_tokens)
        for number in self._counting:
            self._context.engine.forget(number)
        if self._models.current:
            self._counting = [self._ask_count(box.toPlainText(), tell) for box, tell in tells]

    def _ask_count(self, text: str, tell: Callable[[Event], None]) -> int:
        def hear(event: Event) -> None:
            if event.event == "done":
                tell(event)

        model = self._models.current
        return self._context.engine.request("image_count", hear, model=model, prompt=text)

    def _show_tokens(self, event: Event) -> None:
        cut, note = _cut_words(event), str(event.get("note") or "")
        self._studio.form.show_tokens(_token_words(event), cut or note, bool(cut))

    def _show_negative_tokens(self, event: Event) -> None:
        self._studio.form.show_negative_tokens(_token_words(event), _cut_words(event))

    def _show_jobs(self) -> None:
        self._studio.running.show_jobs(self.drawing.jobs)
        self._show_draw()
        self.fit.ask_again()

    def _show_live(self, job: Job, live: Live) -> None:
        self._studio.running.show_live(job, live)

    def _show_draw(self) -> None:
        values = self._studio.form.values()
        is_busy = self.drawing.jobs.running is not None
        note, problem = self._note(values), self._too_large()
        self._studio.form.show_draw(values.count, is_busy, note, problem)

    def _ask_fit(self) -> None:
        """Ask what the form's order needs, but for what makes no difference to it."""
        values = self._studio.form.usable()
        made = {**order(values, 0), "prompt": values.prompt}
        for name in ("seed", "steps", "sampler", "strength", "loras", "clip_skip", "prediction"):
            made.pop(name, None)
        self.fit.ask(self._models.current, made)

    def _show_fit(self, fit: Fit | None) -> None:
        self._studio.form.fit.show_fit(fit)
        self._show_draw()

    def _take_size(self, width: int, height: int) -> None:
        self._studio.form.set_size(width, height)
        self._studio.form.changed.emit()

    def _too_large(self) -> str:
        """Why nothing can be drawn at this size, "" where it can."""
        fit = self._studio.form.fit.fit
        return f"{fit_words(fit)}." if fit is not None and fit.problem else ""

    def _note(self, values: Values) -> str:
        """How long a picture takes here, once one was made with this model and size."""
        pace = self.drawing.pace.get(f"{self._models.current} {values.width} {values.height}")
        if pace is None:
            return ""
        seconds = pace * values.steps
        about = f"about {seconds:.0f} s a picture here" if seconds >= 1 else "under 1 s a picture"
        return join_words(sampler_words(values.sampler), about)

    def _model_size(self) -> int:
        return self._models.info.width * self._models.info.height

    def _tell_elsewhere(self, made: int, problem: str) -> None:
        """Who looks at another page hears how the drawing ended."""
        if self._studio.isVisible():
            return
        show = Action("Show", lambda: self._context.go_to("images"))
        if problem:
            self._context.messages.error(problem, action=show)
        else:
            verb = "is" if made == 1 else "are"
            text = f"{pictures_words(made)} {verb} finished."
            self._context.messages.toast(text, show, seconds=8)

    def _warn(self, text: str) -> None:
        self._context.messages.toast(text, kind="warning", seconds=10)

    def _timer(self, milliseconds: int, run: object) -> QTimer:
        timer = QTimer(self)
        timer.setSingleShot(True)
        timer.setInterval(milliseconds)
        timer.timeout.connect(run)  # type: ignore[arg-type]
        return timer


def _token_words(event: Event) -> str:
    return f"{int(event.get('tokens') or 0)} / {int(event.get('limit') or 0)} tokens"


def _cut_words(event: Event) -> str:
    cut = event.get("cut")
    return f"Not read, beyond the limit: “{shortened(str(cut), MOST_CUT)}”" if cut else ""
