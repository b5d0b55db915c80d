"""The one implementation behind ``farandole.keras`` and ``farandole.tensorflow.keras``, for Keras 3 on any backend and
for Keras 2 (``tf_keras``, and TensorFlow 2.15's own). Imports no Keras and no framework before it is handed one.
"""
