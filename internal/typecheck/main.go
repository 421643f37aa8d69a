// Command typecheck checks the packages of this module for other systems: it finds what the compiler would find in their Go code, in a
// tenth of the time, for the packages that they import are read without the bodies of their functions, and nothing is generated.
//
//	go run ./internal/typecheck GOOS/GOARCH ...
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	failed := false
	for _, target := range os.Args[1:] {
		goos, goarch, _ := strings.Cut(target, "/")
		list, err := packages(".", goos, goarch)
		n := 0
		if err == nil {
			n, err = check(list, goarch, os.Stderr)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "typecheck: %s: %v\n", target, err)
			failed = true
			continue
		}
		fmt.Fprintf(os.Stdout, "%s: %d packages\n", target, n)
	}
	if failed {
		os.Exit(1)
	}
}

// pkg is what go list says of a package.
type pkg struct {
	ImportPath, Dir   string
	GoFiles           []string
	Imports           []string
	ImportMap         map[string]string
	Standard, DepOnly bool
	Module            *struct{ Main bool }
}

// packages lists the packages of a folder's module and all that they import, what is imported first.
func packages(dir, goos, goarch string) (list []pkg, err error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,Imports,ImportMap,Standard,DepOnly,Module", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, said.String())
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
}

// checked are the packages so far, by import path.
type checked map[string]*types.Package

// of resolves the imports of a package.
type of struct {
	checked
	as map[string]string // what the standard library imports under another name
}

func (o of) Import(path string) (*types.Package, error) {
	if other := o.as[path]; other != "" {
		path = other
	}
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p := o.checked[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("package %s is not there", path)
}

// most is how many errors of a package are said.
const most = 10

// check checks packages and returns how many of them are the module's. Errors are written to w.
func check(list []pkg, goarch string, w io.Writer) (n int, err error) {
	all, wrong := checked{}, 0
	for i := range list {
		p := &list[i]
		if p.ImportPath == "unsafe" {
			continue
		}
		own := p.Module != nil && p.Module.Main
		fset, files := token.NewFileSet(), []*ast.File(nil)
		said := 0
		say := func(err error) {
			if said++; said <= most && own {
				fmt.Fprintln(w, err)
			}
		}
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				say(err)
			}
			if f != nil {
				files = append(files, f)
			}
		}
		c := types.Config{Importer: of{all, p.ImportMap}, IgnoreFuncBodies: !own, Sizes: types.SizesFor("gc", goarch), Error: say}
		all[p.ImportPath], _ = c.Check(p.ImportPath, fset, files, nil) // errors went to say
		if own {
			n++
			if said > 0 {
				wrong++
			}
		}
	}
	if wrong > 0 {
		return n, fmt.Errorf("%d packages are wrong", wrong)
	}
	return n, nil
}
