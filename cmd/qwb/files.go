package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"qwb/internal/file"
)

// writeFile replaces the file at path as a whole and returns the SHA-256 of what was written.
func writeFile(path string, write func(io.Writer) error) (sum string, err error) {
	h := sha256.New()
	if err := file.Replace(path, func(w io.Writer) error { return write(io.MultiWriter(w, h)) }); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// staging collects files under temporary names and gives them their names when all are there: all or none. Folders are made
// where they are missing. The zero value is ready; discard has to be called in the end.
type staging struct {
	folders map[string]string // temporary folder by the folder it lies in
	files   [][2]string       // temporary and final path
}

// add writes the file that is to become path.
func (s *staging) add(path string, write func(io.Writer) error) (err error) {
	folder, err := s.folder(path)
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(folder, strconv.Itoa(len(s.files))))
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Close()
	} else {
		f.Close()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s.files = append(s.files, [2]string{f.Name(), path})
	return nil
}

// folder returns a temporary folder on the device that path will be on: in the nearest folder above it that exists.
func (s *staging) folder(path string) (string, error) {
	above := filepath.Dir(path)
	for {
		info, err := os.Stat(above)
		if err == nil && !info.IsDir() {
			return "", &fs.PathError{Op: "write", Path: above, Err: syscall.ENOTDIR}
		}
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		above = filepath.Dir(above)
	}
	if folder, ok := s.folders[above]; ok {
		return folder, nil
	}
	folder, err := os.MkdirTemp(above, ".qwb-*")
	if err != nil {
		return "", err
	}
	if s.folders == nil {
		s.folders = map[string]string{}
	}
	s.folders[above] = folder
	return folder, nil
}

// commit gives the files their names.
func (s *staging) commit() error {
	for _, f := range s.files {
		if err := os.MkdirAll(filepath.Dir(f[1]), 0o755); err != nil {
			return err
		}
		if err := os.Rename(f[0], f[1]); err != nil {
			return err
		}
	}
	return nil
}

// discard removes what has not got its name.
func (s *staging) discard() {
	for _, folder := range s.folders {
		os.RemoveAll(folder)
	}
}

// baseName is the name of a file without folders and extension.
func baseName(path string) string {
	b := filepath.Base(path)
	return strings.TrimSuffix(b, filepath.Ext(b))
}

const planSuffix = ".plan.json"

// planPath is where the plan of a model goes unless -o says otherwise: into the current folder.
func planPath(model, out string) (string, error) {
	if out == "" {
		return baseName(model) + planSuffix, nil
	}
	if !strings.HasSuffix(out, planSuffix) {
		return "", usagef("-o %s: the name of a plan ends in %s", out, planSuffix)
	}
	return out, nil
}

// statsPath is where the statistics lie that belong to a plan.
func statsPath(plan string) string { return strings.TrimSuffix(plan, planSuffix) + ".stats" }

// findPlan returns the plan named by the arguments, or the only one in the current folder.
func findPlan(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	plans, err := filepath.Glob("*" + planSuffix)
	if err != nil {
		return "", err
	}
	switch len(plans) {
	case 1:
		return plans[0], nil
	case 0:
		return "", usagef("no plan: name one, or run qwb calibrate first (no *%s in the current folder)", planSuffix)
	}
	return "", usagef("%d plans in the current folder: name one of %s", len(plans), strings.Join(plans, ", "))
}

// sha256File returns the SHA-256 of a file in hexadecimal.
func sha256File(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
