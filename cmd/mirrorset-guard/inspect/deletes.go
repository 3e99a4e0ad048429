package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/mirrorset-guard/mirrorset-guard/cmd/mirrorset-guard/internal/cli"
	"github.com/mirrorset-guard/mirrorset-guard/internal/text"
	"github.com/mirrorset-guard/mirrorset-guard/review"
	"github.com/mirrorset-guard/mirrorset-guard/review/foreseen"
	"github.com/mirrorset-guard/mirrorset-guard/review/readiness"
	"github.com/mirrorset-guard/mirrorset-guard/review/world"
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
	w, reviewer, err := o.reviewer(ctx, streams)
	if err != nil {
		return err
	}
	defer w.Close()
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	coming, err := o.coming(ctx, w, reviewer)
	if err != nil {
		return o.aboutRelease(err)
	}
	if list == nil {
		return o.printKeep(ctx, streams.Out, targets, reviewer, coming)
	}
	return printDeletion(ctx, streams.Out, targets, reviewer, list, coming)
}

// coming reads what the cluster will pull by an update to the release that the flags name.
func (o *checkOptions) coming(ctx context.Context, w *world.World, reviewer *review.Reviewer) (review.Coming, error) {
	if o.release == "" {
		return review.Coming{}, nil
	}
	choice, err := readiness.Find(w.Cluster.RolloutObjects().Version, o.release)
	if err != nil {
		return review.Coming{}, err
	}
	return readiness.Coming(ctx, readiness.World{Cluster: w.Cluster, Reviewer: reviewer, Carrier: w.Registries.Client}, choice)
}

// mirrorTargets returns where the answer goes. The error is about flags that do not go together.
func (o *checkOptions) mirrorTargets() ([]cli.Target, error) {
	switch {
	case o.deletes != "" && o.keep != "":
		return nil, errors.New("--deletes and --keep are two questions: ask one at a time")
	case len(o.Change.Files) > 0, o.assume != "", o.plan != "", o.missing:
		return nil, errors.New("--deletes and --keep are about the configuration in force: leave out -f, --assume and --plan")
	case o.ack, o.pin, o.rescue, o.simulate, o.stores:
		return nil, errors.New("--ack, --pin, --rescue, --simulate and --signature-stores: not with --deletes and --keep")
	case o.By.Given():
		return nil, errors.New("--for-user and --for-group: not with --deletes and --keep, as exemptions are for changes")
	}
	targets, err := o.outputs.Targets()
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		flag, formats := "--deletes", []string{"table", "json", "yaml", "junit", "markdown"}
		if o.keep != "" {
			flag, formats = "--keep", []string{"table", "json", "yaml", "refs"}
		}
		if !slices.Contains(formats, t.Format) {
			return nil, fmt.Errorf("--output %s: with %s, choose one of %s", t.Format, flag, text.Names(formats, len(formats)))
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
func (o *checkOptions) reviewer(ctx context.Context, streams cli.Streams) (*world.World, *review.Reviewer, error) {
	opened, err := o.Open(ctx, streams)
	if err != nil {
		return nil, nil, err
	}
	return opened.World, &opened.Reviewer, nil
}

func printDeletion(ctx context.Context, out io.Writer, targets []cli.Target, reviewer *review.Reviewer, list *foreseen.DeleteList, coming review.Coming) error {
	d, err := foreseen.Judge(ctx, reviewer, list, coming)
	if err != nil {
		return err
	}
	for _, t := range targets {
		err := t.Print(ctx, out, func(w io.Writer) error {
			switch t.Format {
			case "table":
				return printAnswer(w, d.Report(), d.Notes)
			case "junit":
				return d.WriteJUnit(w)
			case "markdown":
				return d.WriteMarkdown(w)
			default:
				return t.Write(w, d.Document())
			}
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

func (o *checkOptions) printKeep(ctx context.Context, out io.Writer, targets []cli.Target, reviewer *review.Reviewer, coming review.Coming) error {
	list, err := foreseen.Keep(ctx, reviewer, o.keep, coming)
	if err != nil {
		return fmt.Errorf("--keep: %w", err)
	}
	for _, t := range targets {
		if t.Format == "refs" && len(list.Unknown) > 0 {
			continue // what is deleted beside a list that is not complete is lost
		}
		err := t.Print(ctx, out, func(w io.Writer) error {
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
