package decode

import (
	"slices"
	"strings"
)

// GGUFMetadata is what a GGUF file says about the tokens, from which GGUFTokenizer makes the same tokenizer: the keys that begin with
// tokenizer.ggml. end is the id that ends a text, -1 for none. Of a
// tokenizer.bin id 0 stands for what is not known, and the id that begins a text and the one behind it are control tokens.
func (s *SentencePiece) GGUFMetadata(end int) map[string]any {
	const control = 2 // the last id of a control piece
	unknown := max(0, slices.Index(s.types, ggufUnknown))
	tokens, types := make([]string, len(s.pieces)), make([]int32, len(s.pieces))
	for id, p := range s.pieces {
		b, isByte := s.byteOf[id]
		switch {
		case s.types != nil && !isByte:
			tokens[id], types[id] = strings.ReplaceAll(p, " ", metaspace), s.types[id]
		case isByte:
			tokens[id], types[id] = byteName(int(b)), ggufByte
		case id == unknown:
			tokens[id], types[id] = "<unk>", ggufUnknown
		case id <= control:
			tokens[id], types[id] = strings.TrimSpace(p), ggufControl // llama2.c puts line breaks around them
		default:
			tokens[id], types[id] = strings.ReplaceAll(p, " ", metaspace), ggufNormal
		}
	}
	out := map[string]any{
		"tokenizer.ggml.model": "llama", "tokenizer.ggml.pre": "default", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": s.scores,
		"tokenizer.ggml.token_type": types, "tokenizer.ggml.bos_token_id": uint32(s.begin), "tokenizer.ggml.unknown_token_id": uint32(unknown),
		"tokenizer.ggml.add_bos_token": true, "tokenizer.ggml.add_eos_token": false, "tokenizer.ggml.add_space_prefix": s.prefix,
	}
	if end >= 0 {
		out["tokenizer.ggml.eos_token_id"] = uint32(end)
	}
	return out
}
