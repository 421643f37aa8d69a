package decode

// Repetition is a text that ends in circles: the last tokens are those before them, again and again.
type Repetition struct {
	From   int `json:"from"`   // the first token of the circle that came before, counted from the beginning of the prompt
	Period int `json:"period"` // tokens of a circle
	Times  int `json:"times"`  // how often it came, whole ones
}

const (
	repeatTimes  = 3  // circles that are no accident,
	repeatTokens = 16 // nor are so many tokens
)

// FindRepetition returns the circle that the ids after the prompt end in, nil where there is none: at least three of the same in a row, of
// 16 tokens together. Of several periods the shortest counts.
func FindRepetition(ids []int, prompt int) *Repetition {
	n := len(ids)
	for period := 1; (n-prompt)/period >= repeatTimes; period++ {
		from := n - period
		for from > prompt && ids[from-1] == ids[from-1+period] {
			from--
		}
		if length := n - from; length >= max(repeatTimes*period, repeatTokens) {
			return &Repetition{From: from, Period: period, Times: length / period}
		}
	}
	return nil
}
