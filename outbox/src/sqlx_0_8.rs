//! Transactions of sqlx 0.8.

crate::sqlx::transactions!(sqlx_0_8, String::as_str, [
    for<'q> DB::Arguments<'q>: IntoArguments<'q, DB>
]);
crate::sqlx::connection!(sqlx_0_8::PgConnection, sqlx_0_8::Postgres);
