package main

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"qwb"
	"qwb/internal/file"
	"qwb/internal/kind"
	"qwb/internal/options"
	"qwb/internal/workbench"
	"qwb/internal/workbench/server"
	"qwb/reports/page"
)

func newServe(e *env) *cobra.Command {
	var o serveOptions
	return e.takes(&cobra.Command{
		Use:   "serve [PLAN|MODEL]",
		Short: "Open the workbench in the browser: see where the error is, change it, measure it, export",
		Example: lines(
			"qwb serve model.plan.json",
			"qwb serve model.onnx --root . --root /data/images",
			"qwb serve --addr 127.0.0.1:8080 --no-browser        # on another machine: ssh -L 8080:127.0.0.1:8080 HOST"),
		ValidArgsFunction: files("onnx", "tflite", "plan.json"),
		Long: `Serve shows a plan, or a model without one, as a page in the browser: the network coloured by its error, every
layer with its histogram, what another threshold, format or domain would give, searches, tuning, verification
and export. What is clicked is a decision in the plan, as by qwb set, and the page shows the command for it.

The first line on standard output is the address of the page. Only this machine can reach it, and only with the
token in the address. To use it from another machine forward the port: ssh -L 8080:127.0.0.1:8080 HOST, with
--addr 127.0.0.1:8080 here. Ctrl-C ends it; decisions are in the plan, and what was interrupted can be continued.

The page reads and writes files below the folder of the plan or model and those of --root only. It also reads,
and only reads, the model and samples of the plan that is named here, and what --data, --labels and --classes
name. Files dropped on the page are stored in the first of these folders. See docs/workbench.md.`,
		Args: atMost(1, "one plan or model"),
		RunE: func(c *cobra.Command, args []string) error {
			l, err := server.Listen(o.addr)
			if err != nil {
				return err
			}
			defer l.Close()
			at, err := served(args)
			if err != nil {
				return err
			}
			files, err := server.OpenRoots(append(foldersOf(at), o.roots...)...)
			if err != nil {
				return err
			}
			defer files.Close()
			for _, name := range slices.Concat(o.data, []string{o.labels, o.classes}) {
				files.Read(name) // the user has named them: where they may not be read that is said by who reads them
			}
			for _, name := range []string{at.Model, at.Plan, o.classes} {
				if _, ok := files.Path(name); name != "" && !ok {
					return &server.OutsideError{Name: name}
				}
			}
			p := e.project(at.Model, at.Plan)
			p.Store, p.Events, p.Catalog.MetricCommand = files, nil, nil // a page starts no programs
			bench := workbench.New(workbench.Options{Project: *p, Roots: files.Names(), Data: o.data, Labels: o.labels, Threads: o.threads,
				Memory: o.memory})
			defer bench.Close()
			if o.classes != "" {
				params, _ := json.Marshal(map[string]string{"file": o.classes}) // a text always has a form in JSON
				if _, err := bench.Call(c.Context(), "classes", params, ""); err != nil {
					return fmt.Errorf("serve: %w", err)
				}
			}
			e.outside(c.Context(), bench, files, at.Plan)
			bench.Ahead(c.Context()) // the view is there when the browser is
			s := &server.Server{Bench: bench, Roots: files, Page: page.Files(), Log: e.stderr, Token: server.NewToken()}
			return e.serve(c.Context(), s, l, !o.quiet)
		},
	}, &o)
}

// serveOptions are those of serve.
type serveOptions struct {
	addr, labels, classes string
	roots, data           []string
	quiet                 bool
	threads               int
	memory                int64
}

func (o *serveOptions) Table(*qwb.Catalog) options.Table {
	return slices.Concat(options.Table{
		{Name: "addr", See: "workbench.md", At: &o.addr, Default: "127.0.0.1:0",
			Help: "address of this machine to serve at; port 0 is any free one"},
		{Name: "root", At: &o.roots,
			Help: "`DIR` whose files the page may read and write, beside the folder of the plan or model; may be repeated"},
		{Name: "no-browser", At: &o.quiet, Help: "print the address only, open no browser"},
		{Name: "data", At: &o.data, Help: "`PATH` of samples to evaluate with, as for eval; may be repeated; the page can name others"},
		{Name: "labels", At: &o.labels, Help: "`FILE` of labels, as for eval"},
		{Name: "classes", At: &o.classes, Help: "`FILE` with the names of classes: one on a line, or JSON (a list, numbers and names, id2label)"},
	}, options.Threads(&o.threads), options.Memory(&o.memory))
}

// served is what the arguments name: a plan, or a model and the plan that its calibration would write. Without arguments it is the only
// plan here, or nothing yet.
func served(args []string) (qwb.Project, error) {
	if len(args) == 0 {
		plans, err := filepath.Glob("*" + qwb.PlanSuffix)
		if err != nil || len(plans) != 1 {
			return qwb.Project{}, err
		}
		return qwb.Project{Plan: plans[0]}, nil
	}
	name := args[0]
	if _, err := os.Stat(name); err != nil {
		return qwb.Project{}, fmt.Errorf("serve: %w", err)
	}
	if err := kind.Check(name, "a plan or a model", kind.Plan, kind.ONNX, kind.TFLite, kind.PNNX, kind.Checkpoint); err != nil {
		return qwb.Project{}, fmt.Errorf("serve: %w", err)
	}
	if strings.HasSuffix(name, qwb.PlanSuffix) {
		return qwb.Project{Plan: name}, nil
	}
	plan := qwb.BaseName(name) + qwb.PlanSuffix // where calibrate puts it
	if _, err := os.Stat(plan); err != nil {
		plan = filepath.Join(filepath.Dir(name), plan)
	}
	return qwb.Project{Model: name, Plan: plan}, nil
}

// foldersOf are the roots that need not be named.
func foldersOf(at qwb.Project) []string {
	folders := []string{filepath.Dir(at.Plan)}
	if at.Model != "" {
		folders = slices.Compact([]string{filepath.Dir(at.Model), filepath.Dir(at.Plan)})
	}
	return folders
}

// outside lets the page read, and only read, what the plan names in other folders: whoever names a plan in a command lets that read
// its model and samples. It says so, and which folders the page would need for the rest.
func (e *env) outside(ctx context.Context, bench *workbench.Bench, files *server.Roots, plan string) {
	named := func() *workbench.State {
		r, err := bench.Call(ctx, "state", nil, "")
		s, ok := r.(*workbench.State)
		if err != nil || !ok {
			return &workbench.State{}
		}
		return s
	}
	var read []string
	s := named()
	for _, name := range s.Outside {
		if files.Read(name) {
			read = append(read, name)
		}
	}
	if len(read) > 0 {
		e.note("read as the plan names them, nothing is written there: %s", strings.Join(read, ", "))
	}
	if s = named(); s.OutsideCommand != "" {
		e.note("the plan names files in other folders, which the page may not read; to let it: %s", s.OutsideCommand)
	}
}

// serve answers until it is interrupted, which is how it ends.
func (e *env) serve(ctx context.Context, s *server.Server, l net.Listener, browser bool) error {
	url := s.URL(l)
	fmt.Fprintln(raw(e.stdout), url)
	e.note("files: %s; Ctrl-C ends it", strings.Join(s.Roots.Names(), ", "))
	if browser {
		done, err := openBrowser(ctx, url)
		if err != nil {
			e.note("no browser could be started (%s): open the address above", err)
		} else {
			defer done()
		}
	}
	return s.Serve(ctx, l)
}

// browsers start the browser of the user.
var browsers = map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}

// openBrowser opens an address. Other users of the machine see the arguments of programs, so that the program gets a file to open, which
// only this user can read and which leads to the address. done removes it.
func openBrowser(ctx context.Context, url string) (done func(), err error) {
	words := browsers[runtime.GOOS]
	if words == nil {
		words = []string{"xdg-open"}
	}
	dir, done, err := file.Temporary(os.TempDir(), "qwb-serve-")
	if err != nil {
		return nil, err
	}
	script := filepath.Join(dir, "open.html")
	text := fmt.Sprintf("<!doctype html><meta charset=utf-8><meta name=referrer content=no-referrer><meta http-equiv=refresh "+
		"content=\"0;url=%[1]s\"><a href=\"%[1]s\">qwb</a>\n", html.EscapeString(url))
	if err = os.WriteFile(script, []byte(text), 0o600); err == nil {
		command := exec.CommandContext(ctx, words[0], append(words[1:], script)...)
		if err = command.Start(); err == nil {
			go func() { _ = command.Wait() }() // what the browser says of itself is its user's
			return done, nil
		}
	}
	done()
	return nil, err
}
