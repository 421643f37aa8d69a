package target

import (
	"qwb/graph"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

// CellConfig is the grid of the state of the cells of an LSTM with scales of the plan.
var CellConfig = tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 16, QMin: -32768, QMax: 32767},
	Rounding: qmath.HalfAwayFromZero, Observer: tqc.ObserverFixed, FixedScale: graph.CellScale}

// CellParams is the scale of CellConfig.
var CellParams = tqc.Params{Scale: []float32{graph.CellScale}, ZeroPoint: []int32{0}}

// StateScale is the scale of the state of such an LSTM, zero point 0, where the network does not read it at all steps, so that no
// range is known: it is below 1.
const StateScale = 1.0 / 128

// CellsOfPlan reports whether a node with this slot for its data is an LSTM whose scales are those of the plan.
func CellsOfPlan(set *tqc.Set, op string, data tqc.SlotID) bool {
	return op == "LSTM" && data != tqc.NoSlot && set.Slot(data).State() != tqc.FP32 && !set.Slot(data).Config.RunTime()
}
