// Command qwb-beam runs calibrate, the Gram statistics of tune, eval, analyze and verify as pipelines of Apache Beam: each element is a
// part of the run (qwb COMMAND --shard I/N), the combiner is qwb merge. See docs/shards.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"
)

const usage = `qwb-beam [BEAM FLAGS] -shards N -out FILE COMMAND MODEL|PLAN OPTIONS
  COMMAND is calibrate, tune, eval, analyze or verify with the OPTIONS of qwb COMMAND; --data takes patterns.
  Model, plan and data lie under the same paths on every worker.
`

// flags are those of qwb-beam itself; Beam's are on the command line too.
type flags struct {
	shards, workers int
	out             string
	open            bool
}

func (c *flags) bind(f *flag.FlagSet) {
	f.IntVar(&c.shards, "shards", 16, "parts that the run is cut into")
	f.IntVar(&c.workers, "workers", 1, "branches of the pipeline that may run at once: for runners that do not share a branch out, as prism")
	f.StringVar(&c.out, "out", "", "`FILE` of the result: a path, or an address of a bucket: gs://, in programs built with -tags s3 s3:// too")
	f.BoolVar(&c.open, "open-ports", false, "let prism listen on all interfaces where it cannot be kept to loopback")
}

func main() {
	var c flags
	c.bind(flag.CommandLine)
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage); flag.PrintDefaults() }
	flag.Parse()
	registerAll()
	beam.Init()
	if r := flag.Lookup("runner").Value.String(); r == "" || strings.HasPrefix(strings.ToLower(r), "prism") {
		if code, err := loopbackOnly(); err == nil && code >= 0 {
			os.Exit(code)
		} else if err != nil && !c.open {
			fail(fmt.Errorf("prism would listen on all interfaces, since this system gives no network namespace (%w); -open-ports allows it", err))
		}
	}
	ctx := context.Background()
	s, err := newSpec(ctx, c.shards, c.out, flag.Args())
	if err != nil {
		fail(err)
	}
	if err := beamx.Run(ctx, s.pipeline(c.workers)); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "qwb-beam:", err)
	os.Exit(1)
}
