"""The tables, as numbered migrations. Each runs once, in order, under a lock."""

from typing import Final, LiteralString

FORMAT: Final = 2
"""The number of migrations; equal to `log.format` in a log that has them all."""

MIGRATIONS: Final[tuple[LiteralString, ...]] = (
    """
    CREATE TABLE {schema}.log (
        one boolean PRIMARY KEY DEFAULT true CHECK (one),
        format int NOT NULL,
        log_id uuid NOT NULL
    );
    CREATE TABLE {schema}.topics (
        id uuid PRIMARY KEY,
        tenant text COLLATE "C" NOT NULL,
        name text COLLATE "C" NOT NULL,
        settings bytea NOT NULL,
        created_at_us bigint NOT NULL,
        UNIQUE (tenant, name)
    );
    CREATE INDEX topics_without_case ON {schema}.topics (tenant, lower(name));
    CREATE TABLE {schema}.partitions (
        slot bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        topic_id uuid NOT NULL REFERENCES {schema}.topics ON DELETE CASCADE,
        number int NOT NULL,
        low bigint NOT NULL DEFAULT 0,
        first bigint NOT NULL DEFAULT 0,
        high bigint NOT NULL DEFAULT 0,
        last_us bigint NOT NULL DEFAULT 0,
        size_bytes bigint NOT NULL DEFAULT 0,
        keys_seen bigint NOT NULL DEFAULT 0,
        timeline text NOT NULL,
        anchor bytea,
        value bytea,
        UNIQUE (topic_id, number)
    ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,
            autovacuum_vacuum_threshold = 1000);
    CREATE TABLE {schema}.epochs (
        slot bigint NOT NULL REFERENCES {schema}.partitions ON DELETE CASCADE,
        number int NOT NULL,
        id uuid NOT NULL,
        start bigint NOT NULL,
        PRIMARY KEY (slot, number)
    );
    CREATE TABLE {schema}.records (
        slot bigint NOT NULL,
        place bigint NOT NULL,
        timestamp_us bigint NOT NULL,
        key bytea,
        tenant text COLLATE "C",
        kind bytea,
        value bytea NOT NULL,
        headers bytea,
        occurred_at_us bigint,
        size_bytes int NOT NULL,
        chained bytea,
        PRIMARY KEY (slot, place)
    ) WITH (autovacuum_vacuum_scale_factor = 0.02);
    ALTER TABLE {schema}.records ALTER COLUMN value SET STORAGE EXTERNAL;
    CREATE TABLE {schema}.producers (
        slot bigint NOT NULL REFERENCES {schema}.partitions ON DELETE CASCADE,
        tenant text COLLATE "C" NOT NULL,
        producer text COLLATE "C" NOT NULL,
        latest bigint NOT NULL,
        seen_at_us bigint NOT NULL,
        seen bigint NOT NULL,
        PRIMARY KEY (slot, tenant, producer)
    );
    CREATE TABLE {schema}.sequences (
        slot bigint NOT NULL REFERENCES {schema}.partitions ON DELETE CASCADE,
        tenant text COLLATE "C" NOT NULL,
        producer text COLLATE "C" NOT NULL,
        sequence bigint NOT NULL,
        start bigint NOT NULL,
        timestamp_us bigint NOT NULL,
        ordinal bigint NOT NULL,
        PRIMARY KEY (slot, tenant, producer, sequence)
    );
    CREATE TABLE {schema}.idempotency_keys (
        slot bigint NOT NULL REFERENCES {schema}.partitions ON DELETE CASCADE,
        tenant text COLLATE "C" NOT NULL,
        key bytea NOT NULL,
        start bigint NOT NULL,
        timestamp_us bigint NOT NULL,
        count bigint NOT NULL,
        ordinal bigint NOT NULL,
        PRIMARY KEY (slot, tenant, key)
    );
    CREATE TABLE {schema}.keyed (
        topic_id uuid NOT NULL REFERENCES {schema}.topics ON DELETE CASCADE,
        key text COLLATE "C" NOT NULL,
        value bytea NOT NULL,
        PRIMARY KEY (topic_id, key)
    );
    """,
    # Rows for appends inside a caller's transaction, until their offsets are assigned. None is
    # ever committed: a commit other than by leaving the block fails. See design 0097.
    """
    CREATE UNLOGGED TABLE {schema}.held_appends (
        block uuid NOT NULL,
        number bigint NOT NULL,
        PRIMARY KEY (block, number)
    ) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
    CREATE FUNCTION {schema}.refuse_held_appends() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (
            SELECT FROM {schema}.held_appends h
            WHERE h.block = NEW.block AND h.number = NEW.number
        ) THEN
            RAISE EXCEPTION 'an append of this transaction has no offset yet'
            USING HINT = 'Leave the block of log.transaction() to commit.', ERRCODE = '25000';
        END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER refuse_held_appends AFTER INSERT ON {schema}.held_appends
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.refuse_held_appends();
    """,
)
