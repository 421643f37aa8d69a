package analysis

// MinHeldOut is how many held-out samples a decision needs: with fewer the error bar itself is a guess.
const MinHeldOut = 16

// HeldOut reports whether a sample, by its hash, is kept out of fitting, so that what was fitted can be tried on it. About half of all
// samples are. It is a bit of the hash (the second lowest of the last byte), so it does not depend on the order of the data or on how it
// is split; the lowest bit, by which statistics split samples into halves, is another one.
func HeldOut(hash [32]byte) bool { return hash[len(hash)-1]&2 != 0 }

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
