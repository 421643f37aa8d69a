package exec

// HeldOut reports whether a sample, by its hash, is kept out of fitting, so that what was fitted can be tried on it. About half of all
// samples are. It is a bit of the hash (the second lowest of the last byte), so it does not depend on the order of the data or on how it
// is split; the lowest bit, by which statistics split samples into halves, is another one.
func HeldOut(hash [32]byte) bool { return hash[len(hash)-1]&2 != 0 }
