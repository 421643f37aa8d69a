// Command testrun runs go test and says which tests took longest and what was left out: how many need QWB_TESTDATA or QWB_LONG, and which
// others were skipped and why.
//
//	go run ./internal/testrun [-skips FILE] [arguments of go test]
//
// With QWB_TESTDATA a skip that no line of FILE
// expects is a failure.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"qwb/internal/longtest"
)

func main() {
	skips := flag.String("skips", "", "a file of the skips that are expected where the test data are")
	flag.Parse()
	expected, err := readExpected(*skips)
	if err == nil {
		err = runs(expected, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
}

// runs runs all tests.
func runs(e expected, args []string) error {
	all := newTally(os.Stdout)
	err := test(all, args...)
	fmt.Fprint(os.Stdout, "the longest tests:\n", all.longest(12), all.summary(), "\n")
	return errors.Join(err, all.unexpected(e))
}

// test runs go test and counts.
func test(t *tally, args ...string) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	read := t.read(out)
	return errors.Join(read, cmd.Wait())
}

// expected are skips that are no fault: the words behind a package's path, by path.
type expected []struct{ pkg, why string }

// readExpected reads lines of a package's path and the beginning of a reason. Lines that begin with # say why.
func readExpected(name string) (expected, error) {
	if name == "" {
		return nil, nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parseExpected(strings.NewReader(string(b)))
}

func parseExpected(r io.Reader) (e expected, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		pkg, why, found := strings.Cut(line, " ")
		if why = strings.TrimSpace(why); !found || why == "" {
			return nil, fmt.Errorf("%q: a package and the beginning of a reason", line)
		}
		e = append(e, struct{ pkg, why string }{pkg, why})
	}
	return e, lines.Err()
}

// has reports whether a skip of a package is expected.
func (e expected) has(pkg, why string) bool {
	if strings.HasPrefix(why, notApplies) || strings.HasPrefix(why, longtest.Unset) && os.Getenv("QWB_LONG") == "" {
		return true
	}
	for _, x := range e {
		if (x.pkg == "*" || x.pkg == pkg) && strings.HasPrefix(why, x.why) {
			return true
		}
	}
	return false
}
