"""The data service: processes of one job compute tf.data datasets for another: ``horovod.tensorflow.data``."""
