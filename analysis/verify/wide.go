package verify

// wide reports whether accumulators have 64 bits: those of products with a factor of 16. Sums of 8-bit codes have 32 bits whatever they
// need, as on the targets.
func (l *linear) wide() bool {
	return entries(l.x) != 1<<8 || l.weights == nil && entries(*l.w) != 1<<8
}
