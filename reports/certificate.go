package reports

import (
	"io"

	"qwb/internal/plain"
)

// CheckRow is one thing that was checked: what, the verdict, and what there is to know.
type CheckRow struct{ What, Verdict, Text string }

// ChecksText writes a table of checks with a sentence above it.
func ChecksText(w io.Writer, title string, rows []CheckRow) error {
	t := &tables{w: w}
	t.begin(title, "check", "verdict", "")
	bad := 0
	for _, r := range rows {
		if r.Verdict == "different" || r.Verdict == "failed" {
			bad++
		}
		t.row(shorten(r.What, 80), r.Verdict, shortenEnd(r.Text, 200))
	}
	t.end()
	if bad > 0 {
		t.printf("%s of %d failed\n", plain.Count(bad, "check"), len(rows))
	}
	return t.err
}

// CertificateText writes what a new certificate says, as pairs of a word and what there is to say.
func CertificateText(w io.Writer, file string, lines [][2]string) error {
	t := &tables{w: w}
	t.printf("%s\n", file)
	for _, l := range lines {
		t.printf("  %-10s %s\n", l[0], l[1])
	}
	return t.err
}
