"""The files that the ``checkpoint_callback`` of an estimator writes on rank 0."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Dict, Optional

FOLDER = "checkpoints"
"""The folder of these files in the folder of a run."""


class CheckpointFiles:
    """Lets a callback of the type ``ModelCheckpoint`` write to the folder of a run.

    :param keras: the Keras of the model
    :param callback: the callback; only the name of its ``filepath`` is kept
    :param folder: a local folder that is copied to the store; None for a temporary folder
    """

    def __init__(self, keras: Any, callback: Any, folder: Optional[str]) -> None:
        self._keras = keras
        self._callback = callback
        self._temporary = tempfile.TemporaryDirectory(prefix="farandole-run-") if folder is None else None
        self._folder = os.path.join(folder or self._temporary.name, FOLDER)  # type: ignore[union-attr]
        os.makedirs(self._folder, exist_ok=True)
        weights_only = bool(getattr(callback, "save_weights_only", False))
        usual = "best.weights.h5" if weights_only else "best.keras"
        given = str(getattr(callback, "filepath", None) or usual).rstrip("/")
        callback.filepath = os.path.join(self._folder, os.path.basename(given))

    def load_best(self, model: Any, custom_objects: Optional[Dict[str, Any]]) -> None:
        """Gives the model the weights of the best epoch, if the callback saves the best one only and has saved it."""
        path = self._newest() if getattr(self._callback, "save_best_only", False) else None
        if path is None:
            return
        if getattr(self._callback, "save_weights_only", False):
            loaded = model.load_weights(path)
            if loaded is not None and hasattr(loaded, "expect_partial"):
                loaded.expect_partial()  # the state of the optimizer is not needed
            return
        # This process has written the file, so it may refer to any class.
        best = self._keras.models.load_model(path, custom_objects=custom_objects, compile=False, safe_mode=False)
        model.set_weights(best.get_weights())

    def _newest(self) -> Optional[str]:
        import tensorflow as tf

        paths = [entry.path for entry in os.scandir(self._folder)]
        prefix: Optional[str] = tf.train.latest_checkpoint(self._folder)  # of weights in TensorFlow's format
        return prefix or max(paths, key=lambda path: (os.stat(path).st_mtime_ns, path), default=None)
