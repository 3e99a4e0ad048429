package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/foreseen"
)

// asksOfMirror reports whether check is asked about a mirror's contents instead of a change.
func (o *checkOptions) asksOfMirror() bool { return o.deletes != "" || o.keep != "" }

// checkMirror answers for --deletes and --keep.
func (o *checkOptions) checkMirror(ctx context.Context, streams cli.Streams, references []string) error {
	targets, err := o.mirrorTargets()
	if err != nil {
		return err
	}
	var list *foreseen.DeleteList
	if o.deletes != "" {
		if list, err = o.deleteList(streams, references); err != nil {
			return err
		}
	}
	reviewer, done, err := o.reviewer(ctx, streams)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if list == nil {
		return o.printKeep(ctx, streams.Out, targets, reviewer)
	}
	return printDeletion(ctx, streams.Out, targets, reviewer, list)
}

// mirrorTargets returns where the answer goes. The error is about flags that do not go together.
func (o *checkOptions) mirrorTargets() ([]cli.Target, error) {
	switch {
	case o.deletes != "" && o.keep != "":
		return nil, errors.New("--deletes and --keep are two questions: ask one at a time")
	case len(o.change.Files) > 0, o.assume != "", o.plan != "", o.missing:
		return nil, errors.New("--deletes and --keep are about the configuration in force: leave out -f, --assume and --plan")
	}
	targets, err := o.outputs.Targets()
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		switch t.Format {
		case "table", "json", "yaml":
		case "refs":
			if o.keep == "" {
				return nil, errors.New("--output refs: only for --keep")
			}
		default:
			return nil, fmt.Errorf("--output %s: with --deletes and --keep, choose one of table, json, yaml, or refs for --keep", t.Format)
		}
	}
	return targets, nil
}

// deleteList reads the file of --deletes or, where it is a reference, takes it with those that follow.
func (o *checkOptions) deleteList(streams cli.Streams, references []string) (*foreseen.DeleteList, error) {
	if _, err := os.Stat(o.deletes); o.deletes != "-" && errors.Is(err, os.ErrNotExist) {
		list, wrong := foreseen.DeleteReferences(append([]string{o.deletes}, references...))
		if wrong != nil {
			return nil, fmt.Errorf("--deletes: there is no file %s, and as a reference: %w", text.Line(o.deletes), wrong)
		}
		return list, nil
	}
	if len(references) > 0 {
		return nil, fmt.Errorf("--deletes: give a file, or references: not %s and %s", o.deletes, text.Names(references, 1))
	}
	file, err := cli.OpenInput(o.deletes, streams)
	if err != nil {
		return nil, fmt.Errorf("--deletes: %w", err)
	}
	defer file.Close()
	name := o.deletes
	if name == "-" {
		name = "standard input"
	}
	list, err := foreseen.ReadDeleteList(name, file)
	if err != nil {
		return nil, fmt.Errorf("--deletes: %w", err)
	}
	return list, nil
}

// reviewer opens the cluster, with the settings of the flags and the file.
func (o *checkOptions) reviewer(ctx context.Context, streams cli.Streams) (*review.Reviewer, func(), error) {
	configured, err := o.config.Read(&o.policy, &o.world.Registries)
	if err != nil {
		return nil, nil, err
	}
	o.world.Registries.Configured = &configured
	w, err := o.world.Open(ctx, streams)
	if err != nil {
		return nil, nil, err
	}
	reviewer := w.Reviewer()
	reviewer.Settings = configured.Settings
	return &reviewer, w.Close, nil
}

func printDeletion(ctx context.Context, out io.Writer, targets []cli.Target, reviewer *review.Reviewer, list *foreseen.DeleteList) error {
	d, err := foreseen.Judge(ctx, reviewer, list)
	if err != nil {
		return err
	}
	for _, t := range targets {
		err := t.Print(out, func(w io.Writer) error {
			if t.Format == "table" {
				return printAnswer(w, d.Report(), d.Notes)
			}
			return t.Write(w, d.Document())
		})
		if err != nil {
			return err
		}
	}
	if !d.Allowed {
		return cli.ErrDenied
	}
	return nil
}

func (o *checkOptions) printKeep(ctx context.Context, out io.Writer, targets []cli.Target, reviewer *review.Reviewer) error {
	list, err := foreseen.Keep(ctx, reviewer, o.keep)
	if err != nil {
		return fmt.Errorf("--keep: %w", err)
	}
	for _, t := range targets {
		err := t.Print(out, func(w io.Writer) error {
			switch t.Format {
			case "table":
				return printAnswer(w, list.Report(), list.Notes)
			case "refs":
				_, err := io.WriteString(w, list.Lines())
				return err
			default:
				return t.Write(w, list.Document())
			}
		})
		if err != nil {
			return err
		}
	}
	if len(list.Unknown) > 0 {
		return fmt.Errorf("--keep: the list may not be complete: %s", text.Names(list.Unknown, 3))
	}
	return nil
}

// printAnswer prints an answer for people, and the notes on it.
func printAnswer(w io.Writer, answer string, notes []string) error {
	for _, note := range notes {
		answer += fmt.Sprintf("\nNote: %s\n", text.Line(note))
	}
	_, err := io.WriteString(w, answer+"\nRegistries were asked from this machine; nodes may have other proxies, CAs and name servers.\n")
	return err
}
