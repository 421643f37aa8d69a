package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stream is what go test -json prints of two packages: tests that pass, fail, need data, leave something out, and are skipped.
const stream = `{"Action":"start","Package":"q/a"}
{"Action":"output","Package":"q/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"q/a","Test":"TestGood","Output":"    a_test.go:3: noise\n"}
{"Action":"pass","Package":"q/a","Test":"TestGood","Elapsed":1.5}
{"Action":"output","Package":"q/a","Test":"TestShort/one","Output":"    a_test.go:3: QWB_LONG is not set\n"}
{"Action":"pass","Package":"q/a","Test":"TestShort/one","Elapsed":20}
{"Action":"pass","Package":"q/a","Test":"TestShort","Elapsed":20}
{"Action":"output","Package":"q/a","Test":"TestLong","Output":"    a_test.go:3: QWB_LONG is not set: takes a minute\n"}
{"Action":"output","Package":"q/a","Test":"TestLong","Output":"--- SKIP: TestLong (0.00s)\n"}
{"Action":"skip","Package":"q/a","Test":"TestLong"}
{"Action":"output","Package":"q/a","Output":"PASS\n"}
{"Action":"output","Package":"q/a","Output":"ok  \tq/a\t0.1s\n"}
{"Action":"pass","Package":"q/a"}
go: a line of the command itself
{"ImportPath":"q/c","Action":"build-output","Output":"c.go:1: no such thing\n"}
{"Action":"output","Package":"q/b","Test":"TestBad","Output":"    b_test.go:3: it is wrong\n"}
{"Action":"fail","Package":"q/b","Test":"TestBad"}
{"Action":"output","Package":"q/b","Test":"TestData","Output":"    b_test.go:9: QWB_TESTDATA is not set: no models\n"}
{"Action":"skip","Package":"q/b","Test":"TestData"}
{"Action":"output","Package":"q/b","Test":"TestCompiler","Output":"    b_test.go:9: no C compiler\n"}
{"Action":"skip","Package":"q/b","Test":"TestCompiler"}
{"Action":"output","Package":"q/b","Test":"TestAll/ncnn","Output":"    b_test.go:9: does not apply: no zero points\n"}
{"Action":"skip","Package":"q/b","Test":"TestAll/ncnn"}
{"Action":"output","Package":"q/b","Output":"FAIL\tq/b\t0.1s\n"}
{"Action":"fail","Package":"q/b"}
`

func TestTally(t *testing.T) {
	var out bytes.Buffer
	all := newTally(&out)
	require.NoError(t, all.read(strings.NewReader(stream)))
	require.Equal(t, "ok  \tq/a\t0.1s\ngo: a line of the command itself\nc.go:1: no such thing\n    b_test.go:3: it is wrong\n"+
		"FAIL\tq/b\t0.1s\n", out.String())
	require.Equal(t, "3 tests passed; 1 need QWB_TESTDATA, 2 are left out or shorter without QWB_LONG=1, "+
		"1 combinations have nothing to test, 1 skipped for other reasons", all.summary())
	require.Equal(t, "   20.0 s  q/a TestShort\n    1.5 s  q/a TestGood\n", all.longest(2))

	t.Setenv("QWB_LONG", "")
	t.Setenv("QWB_TESTDATA", "")
	require.NoError(t, all.unexpected(nil))
	t.Setenv("QWB_TESTDATA", "/data")
	require.ErrorContains(t, all.unexpected(nil), "q/b TestCompiler was skipped: no C compiler\n"+
		"q/b TestData was skipped: QWB_TESTDATA is not set: no models")
	e, err := parseExpected(strings.NewReader("# a machine without one\nq/b  no C comp\n\n* QWB_TESTDATA is not set\n"))
	require.NoError(t, err)
	require.NoError(t, all.unexpected(e))
	t.Setenv("QWB_LONG", "1")
	require.ErrorContains(t, all.unexpected(e), "q/a TestLong was skipped")
	_, err = parseExpected(strings.NewReader("q/b\n"))
	require.ErrorContains(t, err, "the beginning of a reason")
}
