package target

// The targets that shift, as chips that have tables of 256 codes beside the shifters and no float at all: chains of functions of single
// elements (Sigmoid, Tanh, HardSwish, GELU written out) are one table each, and what has no form on integers between two that have is
// refused, for there is no host to compute it.
var (
	Pow2LUT  = withTables(&Pow2)
	XInt8LUT = withTables(&XInt8)
	FPGALUT  = withTables(&FPGA)
	NXPLUT   = withTables(&NXP)
)

func withTables(from *Target) Target {
	return derive(from, func(t *Target) {
		t.Name, t.Doc = t.Name+"_lut", t.Doc+"; functions of one number as tables of 256 codes, no float"
		t.Tables, t.Float = 8, FloatAbsent
		t.Fusions = nil // those of all four are islands in float
	})
}
