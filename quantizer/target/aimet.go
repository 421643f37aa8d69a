package target

// AIMET is AIMET's simulation of QNN's grids: QNN's table, for who continues there.
var AIMET = derive(&QNN, func(t *Target) {
	t.Name = "aimet"
	t.Doc = "AIMET, float ONNX with encodings: as qnn, to be loaded by load_encodings_to_sim"
})
