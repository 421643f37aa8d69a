"""An extension of Google's Model Explorer: model-explorer --extensions=qwb.model_explorer m.onnx"""
