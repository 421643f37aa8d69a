package decode

// EncodeSlowly is Encode by the definition: the best pair is searched for among all.
func (s *SentencePiece) EncodeSlowly(text string) []int {
	var ids []int
	for _, r := range " " + text {
		if id, ok := s.ids[string(r)]; ok {
			ids = append(ids, id)
			continue
		}
		for _, b := range []byte(string(r)) {
			ids = append(ids, s.bytes[b])
		}
	}
	for {
		best, at, score := -1, -1, float32(0)
		for i := range len(ids) - 1 {
			if id, ok := s.ids[s.pieces[ids[i]]+s.pieces[ids[i+1]]]; ok && (best < 0 || s.scores[id] > score) {
				best, at, score = id, i, s.scores[id]
			}
		}
		if best < 0 {
			return ids
		}
		ids = append(append(ids[:at:at], best), ids[at+2:]...)
	}
}

// Draw chooses n tokens from the same logits.
func Draw(s Sampling, logits []float32, n int) []int {
	c := newSampler(s)
	out := make([]int, n)
	for i := range out {
		out[i] = c.next(logits)
	}
	return out
}

// Vocabulary returns the pieces and their scores.
func (s *SentencePiece) Vocabulary() ([]string, []float32) { return s.pieces, s.scores }
