"""Types of elements that the runtime does not know. Operations that compute nothing move them as bytes, as pairs of
real numbers, or in a wider type that holds them exactly; of texts, they move the lengths and the bytes."""

from __future__ import annotations

from typing import Any, Tuple

from farandole.tensorflow.kernels import tf

AS_BYTES = frozenset([tf.uint32, tf.uint64, tf.qint8, tf.qint16, tf.qint32, tf.quint8, tf.quint16])
COMPLEX = frozenset([tf.complex64, tf.complex128])
WIDER = {
    getattr(tf.dtypes.experimental, name): wider
    for name, wider in {
        "float8_e4m3fn": tf.float32,
        "float8_e5m2": tf.float32,
        "int4": tf.int8,
        "uint4": tf.uint8,
    }.items()
    if hasattr(tf.dtypes.experimental, name)
}


def known(tensor: Any) -> Any:
    """The tensor in a type that the runtime knows. The bytes of an element, or the two parts of a complex number, are a
    dimension of their own."""
    dtype = tensor.dtype.base_dtype
    if dtype in COMPLEX:
        return tf.stack([tf.math.real(tensor), tf.math.imag(tensor)], -1)  # which has gradients
    if dtype in AS_BYTES:
        return tf.bitcast(tensor, tf.uint8)
    return tf.cast(tensor, WIDER[dtype]) if dtype in WIDER else tensor


def known_rows(tensor: Any) -> Any:
    """``known`` for operations on rows, which refuse a scalar of any type."""
    sent = known(tensor)
    return tf.reshape(sent, [-1])[0] if tensor.shape.rank == 0 and sent.shape.rank != 0 else sent


def restored(moved: Any, dtype: Any) -> Any:
    """The inverse of ``known``, for the type that the tensor had."""
    if dtype.base_dtype in COMPLEX:
        return tf.complex(moved[..., 0], moved[..., 1])
    if dtype.base_dtype in AS_BYTES:
        return tf.bitcast(moved, dtype.base_dtype)
    return tf.cast(moved, dtype.base_dtype) if dtype.base_dtype in WIDER else moved


def lengths_and_bytes(texts: Any) -> Tuple[Any, Any]:
    """The number of bytes of each text, and the bytes of all."""
    return tf.strings.length(texts), tf.io.decode_raw(tf.strings.reduce_join(texts), tf.uint8)


def texts_of(lengths: Any, content: Any) -> Any:
    """The inverse of ``lengths_and_bytes``; the texts have the shape of the lengths."""
    count = tf.size(lengths)
    owners = tf.repeat(tf.range(count), tf.reshape(lengths, [-1]))
    letters = tf.gather(tf.constant([bytes([number]) for number in range(256)]), tf.cast(content, tf.int32))
    return tf.reshape(tf.strings.unsorted_segment_join(letters, owners, count), tf.shape(lengths))
