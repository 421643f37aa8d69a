package inferllm

import (
	"fmt"
	"strings"
)

// Types of tokens in GGUF and SentencePiece.
const (
	unknown = 2
	control = 3
	byteOf  = 6
)

// text is what a token of GGUF stands for.
func text(token string, kind int32) (string, error) {
	switch kind {
	case unknown:
		return " \u2047 ", nil // as SentencePiece prints it
	case control:
		return "", nil
	case byteOf:
		var b byte
		if _, err := fmt.Sscanf(token, "<0x%02X>", &b); err != nil || len(token) != 6 {
			return "", fmt.Errorf("%q is no byte", token)
		}
		return string([]byte{b}), nil
	}
	return strings.ReplaceAll(token, "\u2581", " "), nil
}
