"""Trains the network of pytorch_mnist.py with Lightning, on as many workers as you like.

    horovodrun -np 2 python docs/examples/lightning_mnist.py

What makes it distributed is marked with "(distributed)"; the rest is a plain Lightning script.
"""

import argparse
import os
import tempfile

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
import torchmetrics
from pytorch_mnist import Net, load_digits
from torch.utils.data import DataLoader


class Digits(pl.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.save_hyperparameters()
        self.net = Net()
        self.accuracy = torchmetrics.Accuracy("multiclass", num_classes=10)

    def training_step(self, batch, index):
        images, labels = batch
        loss = F.cross_entropy(self.net(images), labels)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)  # (distributed) the mean over all workers
        return loss

    def validation_step(self, batch, index):
        images, labels = batch
        # A metric of torchmetrics counts over all workers by itself.
        self.accuracy(self.net(images), labels)
        self.log("accuracy", self.accuracy)

    def configure_optimizers(self):
        # (distributed) with more workers a step sees more images, so it may be larger
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr * self.trainer.world_size, momentum=0.9)


def main():
    parser = argparse.ArgumentParser(description="MNIST with Lightning on several workers")
    parser.add_argument("--epochs", type=int, default=8, help="passes over the training images")
    parser.add_argument("--steps", type=int, default=-1, help="steps at most; all of them by default")
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
    parser.add_argument("--lr", type=float, default=0.005, help="learning rate of one worker")
    args = parser.parse_args()
    pl.seed_everything(42)
    torch.set_num_threads(1)  # several workers share the cores

    training, held_out = load_digits(42)
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(
            strategy="horovod",  # (distributed)
            max_epochs=args.epochs,
            max_steps=args.steps,
            logger=False,
            enable_progress_bar=False,
            callbacks=[pl.callbacks.ModelCheckpoint(folder, monitor="accuracy", mode="max")],
        )
        model = Digits(args.lr)
        trainer.fit(model, DataLoader(training, args.batch_size, shuffle=True), DataLoader(held_out, 250))
        metrics = trainer.validate(model, DataLoader(held_out, 250), verbose=False)
        if trainer.is_global_zero:  # (distributed) one worker writes checkpoints, and speaks
            print(f"{trainer.world_size} workers, {trainer.global_step} steps, kept {os.listdir(folder)}")
            print(f"accuracy on the held-out images: {metrics[0]['accuracy']:.4f}")


if __name__ == "__main__":
    main()
