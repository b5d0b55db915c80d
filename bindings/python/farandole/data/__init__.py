"""Data loaders that prepare batches beside the training: ``horovod.data``."""

from farandole.data.data_loader_base import AsyncDataLoaderMixin, BaseDataLoader

__all__ = ["AsyncDataLoaderMixin", "BaseDataLoader"]
