"""Use a trained model: the library's `WordDistiller`, files of words, ONNX."""
