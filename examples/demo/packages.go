package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/build"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// job is a piece of work: to hash the files of a Go package, pass after pass.
type job struct {
	Package string   `json:"package"`
	Folder  string   `json:"folder"`
	Files   []string `json:"files"`
	Passes  int      `json:"passes"` // as many as take a time that can be seen

	bytes  int64
	pass   time.Duration // how long one pass took, alone
	wanted time.Duration // how long the job should take
}

// chooseJobs finds the n biggest packages of the Go source tree, in the order of
// their names.
func chooseJobs(n int) ([]job, error) {
	source, err := goSource()
	if err != nil {
		return nil, err
	}
	found := make(map[string]*job)
	err = filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "vendor") {
			return fs.SkipDir
		}
		if !entry.Type().IsRegular() || filepath.Ext(path) != ".go" {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		folder := filepath.Dir(path)
		if found[folder] == nil {
			name, err := filepath.Rel(source, folder)
			if err != nil {
				return err
			}
			found[folder] = &job{Package: filepath.ToSlash(name), Folder: folder}
		}
		found[folder].Files = append(found[folder].Files, entry.Name())
		found[folder].bytes += info.Size()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the Go source tree: %w", err)
	}
	var jobs []job
	for _, j := range found {
		jobs = append(jobs, *j)
	}
	if len(jobs) < n {
		return nil, fmt.Errorf("the Go source tree in %s has only %d packages", source, len(jobs))
	}
	slices.SortFunc(jobs, func(a, b job) int { return cmp.Compare(b.bytes, a.bytes) })
	jobs = jobs[:n]
	slices.SortFunc(jobs, func(a, b job) int { return strings.Compare(a.Package, b.Package) })
	return jobs, nil
}

// goSource is the folder of the Go source tree.
func goSource() (string, error) {
	root := build.Default.GOROOT // empty in a binary that was built with -trimpath
	if root == "" {
		output, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return "", fmt.Errorf("go env GOROOT: %w", err)
		}
		root = strings.TrimSpace(string(output))
	}
	source, err := filepath.EvalSymlinks(filepath.Join(root, "src")) // WalkDir follows none
	if err != nil {
		return "", fmt.Errorf("the Go source tree, which the demo works on: %w", err)
	}
	return source, nil
}

// prepare hashes the files of all jobs, by which the workers' results will be
// checked; measures how long that takes; and says how long each job is to take,
// the bigger packages longer.
func prepare(ctx context.Context, jobs []job, shortest, longest time.Duration) (digests map[string]string, err error) {
	digests = make(map[string]string)
	for i := range jobs {
		j := &jobs[i]
		if _, err := j.hash(ctx); err != nil { // reads them into memory
			return nil, err
		}
		start := time.Now()
		if digests[j.Package], err = j.hash(ctx); err != nil {
			return nil, err
		}
		j.pass = max(time.Since(start), time.Microsecond)
	}
	bySize := make([]*job, len(jobs))
	for i := range jobs {
		bySize[i] = &jobs[i]
	}
	slices.SortFunc(bySize, func(a, b *job) int { return cmp.Compare(a.bytes, b.bytes) })
	for i, j := range bySize {
		j.wanted = shortest + (longest-shortest)*time.Duration(i)/time.Duration(len(jobs))
	}
	return digests, nil
}

// sized is the job with as many passes as make it take the time that it should, if
// each takes slowdown times as long as it did when it was measured.
func (j job) sized(slowdown float64) job {
	j.Passes = max(1, int(math.Round(float64(j.wanted)/float64(j.pass)/slowdown)))
	return j
}

// slowdown is what sized should have been told for a job that took so long.
func (j *job) slowdown(took time.Duration) float64 {
	return float64(took) / float64(j.pass) / float64(j.Passes)
}

// hash makes one pass: the SHA-256 of the list of the files' SHA-256.
func (j *job) hash(ctx context.Context) (string, error) {
	list := sha256.New()
	var content bytes.Buffer // one for all: garbage would keep the other processors busy
	for _, name := range j.Files {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if err := readFile(&content, filepath.Join(j.Folder, name)); err != nil {
			return "", err
		}
		fmt.Fprintf(list, "%x  %s\n", sha256.Sum256(content.Bytes()), name)
	}
	return hex.EncodeToString(list.Sum(nil)), nil
}

func readFile(content *bytes.Buffer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	content.Reset()
	_, err = content.ReadFrom(file)
	return err
}

var errChanged = errors.New("two passes over the same files differ")

// hashAll makes all passes, and calls afterPass after each.
func (j *job) hashAll(ctx context.Context, afterPass func() error) (string, error) {
	var digest string
	for pass := range j.Passes {
		sum, err := j.hash(ctx)
		if err != nil {
			return "", err
		}
		if pass > 0 && sum != digest {
			return "", fmt.Errorf("%s: %w", j.Package, errChanged)
		}
		digest = sum
		if err := afterPass(); err != nil {
			return "", err
		}
	}
	return digest, nil
}
