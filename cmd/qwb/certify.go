package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/analysis"
	"qwb/internal/file"
	"qwb/internal/kind"
	"qwb/internal/options"
	"qwb/internal/plain"
	"qwb/reports"
)

func newCertify(e *env) *cobra.Command {
	var o options.Certify
	return e.takes(&cobra.Command{
		Use:   "certify [PLAN] -o FILE",
		Short: "Measure a plan and write a certificate that another machine can derive again",
		Example: lines(
			"qwb certify model.plan.json --data images/ --labels labels.tsv --export model.int8.onnx -o certificate.json"),
		ValidArgsFunction: files("plan.json"),
		Long: fmt.Sprintf(`Certify measures what a plan does and writes a certificate (JSON): hashes of model, data, plan, tuned values,
target, exported files and qwb; accuracy, changed predictions and NSR with their errors; and of every verification
a digest of all integers. qwb verify-certificate derives all of it again, on this machine or another one, and
names what differs. qwb gate holds it against limits.

The figures are those of the simulation, on --data with --labels, or on %d samples of the plan's own data, which
the plan was made from: they are too good then, and the certificate says how many samples the plan has seen. The
integers of the first %d samples are verified under the target's arithmetic profile; --profile and --backend name
others, separated by commas. --export FILE adds an exported file, which may be repeated.

--form statement writes it as an in-toto statement about the files of the exports, --form envelope as a DSSE
envelope of that statement, which tools that sign such envelopes take.

The plan stays as it is. Exit code 3: the integers differ, and nothing is written.`, qwb.CertifySamples, qwb.VerifySamples),
		Args: atMost(1, "one plan"),
		RunE: onPlan(func(c *cobra.Command, plan string) error {
			if o.Out == "" {
				return usagef("certify needs -o FILE")
			}
			if err := spares("output", o.Out); err != nil && !isCertificate(o.Out) {
				return err
			}
			for _, b := range o.Backends {
				if err := options.CheckBackend(e.catalog(), b); err != nil {
					return err
				}
			}
			o.Tool = e.tool()
			r, _, err := e.project("", plan).Certify(c.Context(), o.CertifyOptions)
			if err != nil {
				return err
			}
			if o.JSON {
				r.Samples = nil // they are in the file
				return e.printJSON(r)
			}
			return reports.CertificateText(e.stdout, r.File, certificateLines(r.Certificate))
		}),
	}, &o)
}

// isCertificate reports whether a file begins as a certificate does, in any form: one that was written before is replaced, as plans and
// reports are.
func isCertificate(path string) bool {
	return beginsWith(path, `"format": "qwb certificate"`, `"_type": "https://in-toto.io/`, `"payloadType": "application/vnd.in-toto`)
}

// beginsWith reports whether the first member of a JSON object, as qwb writes them, begins in one of these ways.
func beginsWith(path string, members ...string) bool {
	if kind.Of(path) != kind.JSON {
		return false
	}
	f, err := file.OpenRead(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, 80)
	n, _ := io.ReadFull(f, head)
	return slices.ContainsFunc(members, func(first string) bool { return bytes.HasPrefix(head[:n], []byte("{\n  "+first)) })
}

func newVerifyCertificate(e *env) *cobra.Command {
	var o options.Recheck
	return e.takes(&cobra.Command{
		Use:   "verify-certificate FILE",
		Short: "Derive a certificate again and name what differs",
		Example: lines(
			"qwb verify-certificate certificate.json",
			"qwb verify-certificate certificate.json --root ~/project --data images/"),
		ValidArgsFunction: files("json"),
		Long: `Verify-certificate derives everything again that a certificate says. First it compares all files by their hashes;
where one differs it is named, and nothing is computed with it. Then it runs plan and float model on the samples,
runs the integers, and exports the plan again.

Hashes and integers must be equal on every machine. Figures that hang on floats must be equal on processors of the
same class (with or without fused multiply-add, which the certificate records), and within stated bounds on those
of the other class.

Files are where the certificate says, relative to its own folder. --root names another folder for all of them;
--plan, --model, --data and --labels name single ones. --key names the public key of somebody who has to have
signed the envelope that the certificate is in. Exit code 3: something differs.`,
		Args: exactly(1, "one certificate"),
		RunE: func(c *cobra.Command, args []string) error {
			o.Certificate = args[0]
			var err error
			if o.Keys, err = publicKeys(o.KeyFiles); err != nil {
				return err
			}
			r, _, err := e.project("", "").VerifyCertificate(c.Context(), o.RecheckOptions)
			if r == nil {
				return err
			}
			title := r.Certificate
			if r.Arithmetic[0] != "" { // nothing was computed with a certificate that was changed
				title += fmt.Sprintf(": processors %s (recorded), %s (here)", r.Arithmetic[0], r.Arithmetic[1])
			}
			return e.print(o.JSON, r, err, func() error { return reports.ChecksText(e.stdout, title, recheckRows(r)) })
		},
	}, &o)
}

// recheckRows turns checks into rows of a table.
func recheckRows(r *qwb.RecheckResult) (rows []reports.CheckRow) {
	for _, c := range r.Checks {
		text := c.Note
		switch {
		case text != "" && c.Found != "" && c.Recorded != "":
			text = fmt.Sprintf("%s, recorded %s; %s", c.Found, c.Recorded, c.Note)
		case text == "" && c.Verdict == qwb.RecheckEqual:
			text = c.Recorded
		case text == "":
			text = fmt.Sprintf("%s, recorded %s", c.Found, c.Recorded)
		}
		rows = append(rows, reports.CheckRow{What: c.What, Verdict: c.Verdict, Text: text})
	}
	return rows
}

// certificateLines are what a certificate says, for people.
func certificateLines(c *qwb.Certificate) (lines [][2]string) {
	add := func(what, format string, args ...any) {
		lines = append(lines, [2]string{what, fmt.Sprintf(format, args...)})
	}
	f := &c.Figures
	seen := ""
	switch {
	case c.Data.Seen > 0:
		seen = fmt.Sprintf(", of which the plan was calibrated on %d", c.Data.Seen)
	case c.Data.Seen == 0:
		seen = ", none of which the plan was calibrated on"
	}
	add("data", "%d samples%s", f.Samples, seen)
	if f.Drop != nil {
		name := f.Metric
		if f.Agreement {
			name += ", what float answers taken for right"
		}
		add("drop", "%s (%s)", reports.Points(*f.Drop, f.DropError, f.Percent), name)
	}
	if f.Flips != nil {
		add("flips", "%d classes other than float's", *f.Flips)
	}
	add(analysis.ErrorName(f.Mismatches), "%s", qwb.WithError(f.NSR, f.NSRError))
	for _, line := range f.Headlines {
		add("headline", "%s", line)
	}
	for _, v := range c.Verifications {
		digest := fmt.Sprintf(", digest %.12s...", v.Digest.SHA256)
		if v.Digest.SHA256 == "" { // all integers are behind a float operator
			digest = fmt.Sprintf(", digest behind float operators %.12s...", v.Digest.BehindFloatSHA256)
		}
		add("integers", "profile %s, backend %s: %s on %s%s", v.Profile, v.Backend, v.Verdict, plain.Count(v.Samples, "sample"), digest)
	}
	for _, x := range c.Exports {
		add("export", "%s, SHA-256 %.12s...", x.Path, x.SHA256)
		for _, part := range x.Parts {
			add("with it", "%s, SHA-256 %.12s...", part.Path, part.SHA256)
		}
	}
	add("processor", "%s multiply-add", c.Arithmetic)
	return lines
}

// tool is this program, for a certificate.
func (e *env) tool() qwb.Tool {
	t := qwb.Tool{Revision: revision()}
	path, err := os.Executable()
	if err != nil {
		return t
	}
	f, err := file.OpenRead(path)
	if err != nil {
		return t
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err == nil {
		t.SHA256 = hex.EncodeToString(h.Sum(nil))
	}
	return t
}
