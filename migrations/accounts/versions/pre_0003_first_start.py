"""Member and GPU models of the first start of each job, of the jobs that are there too.

Their rows are filled month by month, each in a statement of its own: no statement then takes longer than the bound of a
command allows.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0003_pre"
down_revision = "0002_pre"
branch_labels = None
depends_on = None

SCHEMA = "accounts"
MONTHS = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'accounts.jobs'::regclass ORDER BY 1"
FILL = """
UPDATE {month} job SET first_member = first.member, first_models = first.models
FROM (
  SELECT past.uid, past.submitted, min(attempt.member) AS member,
    array_agg(DISTINCT attempt.model ORDER BY attempt.model) AS models
  FROM {month} past JOIN accounts.attempts attempt ON attempt.job = past.uid AND attempt.started = past.started
  GROUP BY past.uid, past.submitted
) first
WHERE first.uid = job.uid AND first.submitted = job.submitted
"""


def upgrade() -> None:
    op.add_column("jobs", sa.Column("first_member", sa.String), schema=SCHEMA)
    op.add_column("jobs", sa.Column("first_models", ARRAY(sa.String)), schema=SCHEMA)
    for month in op.get_bind().execute(sa.text(MONTHS)).scalars().all():
        op.execute(FILL.format(month=month))
