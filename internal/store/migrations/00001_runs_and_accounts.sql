-- Both databases read these statements: SQLite keeps text, whole numbers and bytes whatever a column's type is called.
-- Times are microseconds since 1970, 0 is none.

-- +goose Up
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    n    BIGINT NOT NULL
);
INSERT INTO counters (name, n) VALUES ('sequence', 0);

-- The latest version of each run; a removed run keeps its row, with version 0.
CREATE TABLE runs (
    id       TEXT PRIMARY KEY,
    version  BIGINT NOT NULL,
    sequence BIGINT NOT NULL UNIQUE,
    entry    BYTEA NOT NULL
);

CREATE TABLE versions (
    run         TEXT NOT NULL,
    version     BIGINT NOT NULL,
    run_id      TEXT NOT NULL,
    events_hash TEXT NOT NULL,
    entry       BYTEA NOT NULL,
    document    BYTEA NOT NULL,
    checks      BYTEA NOT NULL,
    files       TEXT NOT NULL,
    why         TEXT NOT NULL,
    PRIMARY KEY (run, version)
);
CREATE INDEX versions_by_run_id ON versions (run_id);
CREATE INDEX versions_by_events ON versions (events_hash);

CREATE TABLE files (
    hash    TEXT NOT NULL,
    run     TEXT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (hash, run, version)
);
CREATE INDEX files_by_run ON files (run);

CREATE TABLE changes (
    sequence   BIGINT PRIMARY KEY,
    run        TEXT NOT NULL,
    version    BIGINT NOT NULL,
    at         BIGINT NOT NULL,
    by_account TEXT NOT NULL,
    what       TEXT NOT NULL,
    why        TEXT NOT NULL
);
CREATE INDEX changes_by_run ON changes (run, sequence);

CREATE TABLE uploads (
    id         TEXT PRIMARY KEY,
    owner      TEXT NOT NULL,
    hash       TEXT NOT NULL,
    size       BIGINT NOT NULL,
    received   BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    run        TEXT NOT NULL
);
CREATE INDEX uploads_by_hash ON uploads (hash, owner);

CREATE TABLE accounts (
    id         TEXT PRIMARY KEY,
    provider   TEXT NOT NULL,
    subject    TEXT NOT NULL,
    name       TEXT NOT NULL UNIQUE,
    role       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (provider, subject)
);

CREATE TABLE sessions (
    hash       TEXT PRIMARY KEY,
    account    TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_by_account ON sessions (account);

CREATE TABLE tokens (
    id         TEXT PRIMARY KEY,
    hash       TEXT NOT NULL UNIQUE,
    account    TEXT NOT NULL,
    name       TEXT NOT NULL,
    scopes     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL
);
CREATE INDEX tokens_by_account ON tokens (account);

CREATE TABLE devices (
    code_hash  TEXT PRIMARY KEY,
    user_code  TEXT NOT NULL UNIQUE,
    scopes     TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    account    TEXT NOT NULL,
    denied     BIGINT NOT NULL
);

-- +goose Down
DROP TABLE devices;
DROP TABLE tokens;
DROP TABLE sessions;
DROP TABLE accounts;
DROP TABLE uploads;
DROP TABLE changes;
DROP TABLE files;
DROP TABLE versions;
DROP TABLE runs;
DROP TABLE counters;
