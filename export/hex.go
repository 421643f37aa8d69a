package export

// HexDigits are the values of hexadecimal digits of both cases, 16 of other characters.
var HexDigits = func() (t [256]byte) {
	for c := range t {
		t[c] = 16
	}
	for i, c := range "0123456789abcdef" {
		t[c] = byte(i)
	}
	for i, c := range "ABCDEF" {
		t[c] = byte(10 + i)
	}
	return t
}()
