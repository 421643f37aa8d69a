package decode

// Tokenizer cuts text into tokens and puts it together again. It may be used by many goroutines.
type Tokenizer interface {
	// Encode returns the ids of a text, without a token that begins it.
	Encode(text string) []int
	// Piece returns what a token stands for after another one (the id that begins a text: nothing is before it).
	// Bytes that are no UTF-8 by themselves are part of a character that several tokens make up.
	Piece(before, id int) string
	// Size is how many ids there are: 0 to Size-1.
	Size() int
}

// Text puts the pieces of ids together; before is the id in front of the first.
func Text(t Tokenizer, before int, ids []int) string {
	var out []byte
	for _, id := range ids {
		out = append(out, t.Piece(before, id)...)
		before = id
	}
	return string(out)
}
