package decode

import "strings"

// The alphabet of byte-level encoding (GPT-2): every byte is a character that can be seen. Bytes that are printable in Latin-1 stay
// what they are, the others follow from U+0100 on.
var (
	byteRunes = byteAlphabet()
	runeBytes = invert(byteRunes)
)

func byteAlphabet() (out [256]rune) {
	next := rune(256)
	for b := range out {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			out[b] = rune(b)
		} else {
			out[b] = next
			next++
		}
	}
	return out
}

func invert(runes [256]rune) map[rune]byte {
	out := make(map[rune]byte, len(runes))
	for b, r := range runes {
		out[r] = byte(b)
	}
	return out
}

// toByteLevel writes a text in the alphabet of bytes.
func toByteLevel(text string) string {
	var out strings.Builder
	out.Grow(2 * len(text))
	for _, b := range []byte(text) {
		out.WriteRune(byteRunes[b])
	}
	return out.String()
}

// fromByteLevel undoes toByteLevel; what is not of the alphabet stays as it is.
func fromByteLevel(piece string) string {
	out := make([]byte, 0, len(piece))
	for _, r := range piece {
		b, ok := runeBytes[r]
		if !ok {
			return piece
		}
		out = append(out, b)
	}
	return string(out)
}
