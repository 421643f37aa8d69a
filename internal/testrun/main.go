// Command testrun runs go test and says what was left out: how many tests need QWB_TESTDATA or QWB_LONG, and which others were skipped and
// why.
//
//	go run ./internal/testrun [-long] [-skips FILE] [arguments of go test]
//
// With -long it then runs those tests again, with QWB_LONG=1, that left out what takes long. With QWB_TESTDATA a skip that no line of FILE
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
	"slices"
	"strings"

	"qwb/internal/longtest"
)

func main() {
	long := flag.Bool("long", false, "run what takes long afterwards")
	skips := flag.String("skips", "", "a file of the skips that are expected where the test data are")
	flag.Parse()
	expected, err := readExpected(*skips)
	if err == nil {
		err = runs(*long, expected, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
}

// runs runs all tests, and with long those again that left something out.
func runs(long bool, e expected, args []string) error {
	first := newTally(os.Stdout)
	err := test(first, args...)
	fmt.Fprintln(os.Stdout, first.summary())
	err = errors.Join(err, first.unexpected(e))
	if !long {
		return err
	}
	packages, pattern := first.leftOut()
	if len(packages) == 0 {
		return err
	}
	os.Setenv("QWB_LONG", "1")
	again := newTally(os.Stdout)
	fmt.Fprintf(os.Stdout, "\nQWB_LONG=1: %d packages\n", len(packages))
	err = errors.Join(err, test(again, slices.Concat(flagsOf(args), []string{"-run", pattern}, packages)...))
	fmt.Fprintln(os.Stdout, again.summary())
	return errors.Join(err, again.unexpected(e))
}

// flagsOf are the arguments that name no packages.
func flagsOf(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool { return !strings.HasPrefix(a, "-") })
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
