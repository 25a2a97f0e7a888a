package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"speedmatrix"
	"speedmatrix/internal/account"
	"speedmatrix/internal/blob"
	"speedmatrix/internal/catalog"
	"speedmatrix/internal/store"
)

const siteLong = `What the operator of a results site does beside it, while it is served or not: backups,
accounts, runs that have to go. It takes the same --data, --database and --files as
speedmatrix serve.`

const siteExample = `  speedmatrix site backup site-2026-12-01.tar.gz
  speedmatrix site restore site-2026-12-01.tar.gz --data new
  speedmatrix site role ada moderator
  speedmatrix site erase 01k… --yes`

func newSite(env *Env) *cobra.Command {
	o := &siteOptions{}
	cmd := &cobra.Command{Use: "site", Short: "backups, accounts and runs of a results site", Long: siteLong, Example: siteExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknownCommand(cmd, args[0])
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	o.flags(flags{cmd.PersistentFlags()})
	cmd.AddCommand(newSiteBackup(env, o), newSiteRestore(env, o), newSiteRole(env, o), newSiteErase(env, o))
	return cmd
}

// siteWork is what a command does with what a site keeps.
type siteWork func(ctx context.Context, s *store.Store, files blob.Store) error

// inSite does something with a site that is there.
func (o *siteOptions) inSite(ctx context.Context, env *Env, do siteWork) error {
	file, sqlite := strings.CutPrefix(cmp.Or(o.database, "sqlite:"+filepath.Join(o.data, "site.db")), "sqlite:")
	if _, err := os.Stat(file); sqlite && errors.Is(err, fs.ErrNotExist) {
		return usage(fmt.Sprintf("there is no site: %s does not exist", file), "Name its folder with --data, or its database with --database.")
	}
	return o.with(ctx, env, do)
}

// with opens what a site keeps, makes it where it is missing, and closes it in the end.
func (o *siteOptions) with(ctx context.Context, env *Env, do siteWork) error {
	ctx, in := listenForInterrupts(ctx, env, func() {})
	defer in.close()
	o.letNamesStand(env)
	err := o.open(ctx, env, do)
	if err != nil && ctx.Err() != nil {
		return &speedmatrix.Error{Kind: speedmatrix.KindInterrupted, What: "interrupted; nothing was changed", Err: err}
	}
	return err
}

func (o *siteOptions) open(ctx context.Context, env *Env, do siteWork) error {
	if err := o.folder(); err != nil {
		return err
	}
	files, err := o.blobs(ctx, env)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, o.database)
	if err != nil {
		return kept(err)
	}
	return errors.Join(do(ctx, s, files), s.Close())
}

func newSiteBackup(env *Env, o *siteOptions) *cobra.Command {
	return &cobra.Command{Use: "backup FILE", Short: "everything of the site in one file", Args: exactlyOne("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := os.Stat(args[0]); err == nil {
				return usage(args[0]+" exists", "Name another file: a backup replaces none.")
			}
			return o.inSite(cmd.Context(), env, func(ctx context.Context, s *store.Store, files blob.Store) error {
				return backup(ctx, env, s, files, args[0])
			})
		}}
}

// backup writes the backup beside its place and moves it there when it is whole.
func backup(ctx context.Context, env *Env, s *store.Store, files blob.Store, path string) error {
	out, err := os.CreateTemp(filepath.Dir(path), ".speedmatrix-backup-")
	if err != nil {
		return backupFailed(path, err)
	}
	missing, err := s.Backup(ctx, files, out)
	if err == nil {
		err = out.Sync()
	}
	err = errors.Join(err, out.Close())
	if err == nil {
		err = os.Rename(out.Name(), path)
	}
	if err != nil {
		return backupFailed(path, errors.Join(err, os.Remove(out.Name())))
	}
	if missing > 0 {
		_, _ = fmt.Fprintf(env.Stderr, "speedmatrix: warning: %d files of runs were not there: they were erased meanwhile, or are lost\n", missing)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s holds the whole site. speedmatrix site restore puts it into an empty one.\n", path)
	return err
}

func backupFailed(path string, err error) error {
	return &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: fmt.Sprintf("the backup %s was not made: %s", path, oneLine(err)), Next: "Look at the folder's permissions and room, and at the site's files.", Err: err}
}

func newSiteRestore(env *Env, o *siteOptions) *cobra.Command {
	return &cobra.Command{Use: "restore FILE", Short: "a backup into an empty site", Args: exactlyOne("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return unreadable("backup", err)
			}
			err = o.with(cmd.Context(), env, func(ctx context.Context, s *store.Store, files blob.Store) error {
				return s.Restore(ctx, files, io.Reader(file))
			})
			if err = errors.Join(err, file.Close()); err != nil && speedmatrix.KindOf(err) != speedmatrix.KindInterrupted {
				return &speedmatrix.Error{Kind: speedmatrix.KindOutput, What: fmt.Sprintf("%s was not restored: %s", args[0], oneLine(err)), Next: "The site is as it was. Restore a whole backup into an empty --data.", Err: err}
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(env.Stdout, "%s is restored into %s.\n", args[0], o.data)
			return err
		}}
}

func newSiteRole(env *Env, o *siteOptions) *cobra.Command {
	return &cobra.Command{Use: "role NAME ROLE", Short: "make an account member, moderator, administrator or blocked",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usage("role takes a name and a role", "Usage: "+cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			role := account.Role(args[1])
			switch role {
			case account.Member, account.Moderator, account.Administrator, account.Blocked:
			default:
				return usage(fmt.Sprintf("there is no role %q", args[1]), "The roles are member, moderator, administrator and blocked.")
			}
			err := o.inSite(cmd.Context(), env, func(ctx context.Context, s *store.Store, _ blob.Store) error {
				return account.GrantRole(ctx, s, args[0], role)
			})
			if errors.Is(err, account.ErrNotFound) {
				return usage(fmt.Sprintf("there is no account %q", args[0]), "An account is made when someone first signs in.")
			}
			if err == nil {
				_, err = fmt.Fprintf(env.Stdout, "The role of %s is %s now.\n", args[0], role)
			}
			return err
		}}
}

func newSiteErase(env *Env, o *siteOptions) *cobra.Command {
	yes := false
	cmd := &cobra.Command{Use: "erase RUN", Short: "remove a run for good, with its history and files", Args: exactlyOne("run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				return usage("nothing was erased", "A run that is erased cannot be had back: say --yes. To keep its address and a reason, withdraw it on its page.")
			}
			err := o.inSite(cmd.Context(), env, func(ctx context.Context, s *store.Store, files blob.Store) error {
				return erase(ctx, s, files, args[0])
			})
			if err == nil {
				_, err = fmt.Fprintf(env.Stdout, "%s is erased, with its history and files.\n", args[0])
			}
			return err
		}}
	cmd.Flags().BoolVar(&yes, "yes", false, "erase it")
	return cmd
}

// erase removes a run and the files that no other has; a site that is served hears of it within seconds.
func erase(ctx context.Context, s *store.Store, files blob.Store, id string) error {
	r, err := s.Get(ctx, id, 0)
	if errors.Is(err, catalog.ErrNotFound) {
		return usage(fmt.Sprintf("there is no run %q", id), "Its ID stands in its address.")
	}
	if err != nil {
		return kept(err)
	}
	blobs := r.Blobs
	for version := 1; version < r.Entry.Version; version++ {
		old, err := s.Get(ctx, id, version)
		if err != nil {
			return kept(err)
		}
		blobs = append(blobs, old.Blobs...)
	}
	if err := s.Remove(ctx, id); err != nil {
		return kept(err)
	}
	for _, b := range blobs {
		used, err := s.BlobInUse(ctx, b.Hash)
		if err == nil && !used {
			err = files.Remove(ctx, b.Hash)
		}
		if err != nil {
			return kept(err)
		}
	}
	return nil
}
