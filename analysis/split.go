package analysis

import "math"

// MinHeldOut is how many held-out samples a decision needs: with fewer the error bar itself is a guess.
const MinHeldOut = 16

// CrossedBelow is how many samples are too few to be halved for good: below, the halves take turns, so that every sample is judged by what
// was fitted on the others.
const CrossedBelow = 4 * MinHeldOut

// CrossedError is by how much the standard error over all samples is widened where the halves took turns: what two fits share makes their
// errors depend on each other. The variance of the mean is then s²/N (1 + N m/k / m), where each fit is made on k samples and tried on m
// (Nadeau and Bengio, Inference for the Generalization Error, Machine Learning 52, 2003): with halves, three times s²/N.
var CrossedError = math.Sqrt(3)

// Kinds of held-out samples.
const (
	// HeldOutUnseen: the statistics that gave the scales have not seen the samples.
	HeldOutUnseen = "unseen"
	// HeldOutHalf: the statistics have seen at least one of them; only what was fitted afterwards has not.
	HeldOutHalf = "half"
)

// HeldOutKind says what held-out samples are worth. seen reports whether statistics hold a hash; nil is for plans without statistics.
func HeldOutKind(hashes [][32]byte, seen func([32]byte) bool) string {
	for _, h := range hashes {
		if seen != nil && seen(h) {
			return HeldOutHalf
		}
	}
	return HeldOutUnseen
}
