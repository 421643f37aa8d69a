package decode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// charsMap is the table by which SentencePiece rewrites characters (precompiled_charsmap): a double array (Aoe, 1989, in the form of
// darts-clone) whose values are places in a list of texts that end with a zero byte.
type charsMap struct {
	units []uint32
	texts string
}

func parseCharsMap(b []byte) (*charsMap, error) {
	if len(b) < 4 {
		return nil, errors.New("the table of characters is cut off")
	}
	n := binary.LittleEndian.Uint32(b)
	if n == 0 || n%4 != 0 || uint64(n) > uint64(len(b)-4) {
		return nil, fmt.Errorf("the table of characters has %d bytes, its first part %d", len(b), n)
	}
	m := &charsMap{units: make([]uint32, n/4), texts: string(b[4+n:])}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(b[4+4*i:])
	}
	return m, nil
}

// find returns what the longest beginning of s that has an entry becomes, or the shortest, and how many bytes it has: 0 where there is
// none.
func (m *charsMap) find(s string, longest bool) (to string, n int) {
	offset := func(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
	at := offset(m.units[0])
	for i := range len(s) {
		if at ^= uint32(s[i]); int64(at) >= int64(len(m.units)) {
			break
		}
		unit := m.units[at]
		if unit&(1<<31|0xff) != uint32(s[i]) {
			break
		}
		if at ^= offset(unit); int64(at) >= int64(len(m.units)) {
			break
		}
		if value := m.units[at] &^ (1 << 31); unit>>8&1 == 1 && int64(value) < int64(len(m.texts)) {
			to, n = m.texts[value:], i+1
			if to, _, _ = strings.Cut(to, "\x00"); !longest {
				break
			}
		}
	}
	return to, n
}

// byCluster rewrites a text as the library tokenizers does: what is seen as one character is looked up as a whole if it has less than six
// bytes, by the shortest entry that it begins with; otherwise each of its characters is.
func (m *charsMap) byCluster(text string) string {
	var out strings.Builder
	for len(text) > 0 {
		n := cluster(text)
		if to, found := m.find(text[:n], false); found > 0 && n < 6 {
			out.WriteString(to)
		} else {
			for _, r := range text[:n] {
				if to, found := m.find(string(r), false); found > 0 {
					out.WriteString(to)
				} else {
					out.WriteRune(r)
				}
			}
		}
		text = text[n:]
	}
	return out.String()
}

// cluster is how many bytes the first grapheme cluster of a text has (Unicode, Annex 29), or one of its beginnings of six bytes or more:
// syllables of Hangul, flags and joined emoji are longer.
func cluster(text string) int {
	if strings.HasPrefix(text, "\r\n") {
		return 2
	}
	closed, open := false, true // nothing goes on the cluster, anything but a control character does
	for i, r := range text {
		joins := unicode.In(r, unicode.M, unicode.Join_Control) || r == 0xff9e || r == 0xff9f || r >= 0xe0020 && r <= 0xe007f
		prepends := unicode.Is(unicode.Prepended_Concatenation_Mark, r)
		control := !joins && !prepends && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
		if i > 0 && (closed || control || !joins && !open) {
			return i
		}
		closed, open = control, open && prepends
	}
	return len(text)
}
