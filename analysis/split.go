package analysis

// MinHeldOut is how many held-out samples a decision needs: with fewer the error bar itself is a guess.
const MinHeldOut = 16

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
